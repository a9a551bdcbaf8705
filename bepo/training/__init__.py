"""The settings of an update, for all backends. The defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field

from bepo.core.settings import Settings, setting


@dataclass
class CriticSettings(Settings):
    """The critic of PPO as in verl-agent: a copy of the policy's backbone with a scalar head and its own optimiser."""

    learning_rate: float = setting(1e-5, above=0)
    """The critic's learning rate; the optimiser is AdamW."""
    weight_decay: float = setting(0.01, at_least=0)
    """The critic's weight decay."""
    clip_eps: float = setting(0.5, above=0)
    """Clip range of values around the value at rollout time."""
    max_grad_norm: float = setting(1.0, above=0)
    """Clip range of the gradient's global norm."""

    group = "training.critic"


@dataclass
class Optimisation(Settings):
    """The optimiser and the terms of the loss beside the policy loss (``bepo.losses``).

    The defaults are the paper's (supplement, Table "Common final Gated-BEPO and actor-optimization hyperparameters").
    """

    learning_rate: float = setting(1e-6, above=0)
    """The policy's learning rate; the optimiser is AdamW."""
    beta1: float = setting(0.9, at_least=0, below=1)
    """AdamW's decay of the mean of the gradients."""
    beta2: float = setting(0.999, at_least=0, below=1)
    """AdamW's decay of the mean of the squared gradients."""
    weight_decay: float = setting(0.01, at_least=0)
    """AdamW's weight decay."""
    epochs: int = setting(1, at_least=1)
    """Passes over the transitions in each update."""
    minibatch_size: int = setting(256, at_least=1)
    """Number of transitions in an optimiser step."""
    max_grad_norm: float = setting(1.0, above=0)
    """Clip range of the gradient's global norm."""
    entropy_coef: float = setting(0.001, at_least=0)
    """Weight of the entropy bonus in the loss."""
    kl_coef: float = setting(0.01, at_least=0)
    """Weight of the KL loss (low-variance estimate k3) against the frozen reference; 0: no reference."""
    critic: CriticSettings = field(default_factory=CriticSettings)
    """The critic's settings, for estimators that need a critic."""
    micro_batch_tokens: int = setting(16384, at_least=1, identity=False)
    """Maximum number of tokens in a micro-batch, padding included. It limits memory, and changes only rounding.
    `backend=verl` reads `backend.micro_batch_tokens` instead."""

    group = "training"
