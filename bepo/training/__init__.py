"""The settings of an update, which every backend reads; the defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field

from bepo.core.settings import Settings, setting


@dataclass
class CriticSettings(Settings):
    """The critic of PPO as in verl-agent: a copy of the policy's backbone with a scalar head and its own optimiser."""

    learning_rate: float = setting(1e-5, above=0)
    """The critic's own learning rate; the optimiser is AdamW."""
    weight_decay: float = setting(0.01, at_least=0)
    """The critic's own weight decay."""
    clip_eps: float = setting(0.5, above=0)
    """A value that is farther than this from the value at rollout time lowers its loss no further."""
    max_grad_norm: float = setting(1.0, above=0)
    """The gradient is scaled down to this global norm where it is larger."""

    group = "training.critic"


@dataclass
class Optimisation(Settings):
    """Updates on transitions, whatever the policy loss, which is ``bepo.losses``.

    The defaults are those of the paper (supplement, Table "Common final Gated-BEPO and actor-optimization
    hyperparameters").
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
    """Each update goes this many times over its transitions."""
    minibatch_size: int = setting(256, at_least=1)
    """The number of transitions of one optimiser step."""
    max_grad_norm: float = setting(1.0, above=0)
    """The gradient is scaled down to this global norm where it is larger."""
    entropy_coef: float = setting(0.001, at_least=0)
    """The weight of the entropy bonus in the loss."""
    kl_coef: float = setting(0.01, at_least=0)
    """The weight of the KL loss (the low-variance estimate k3) against the frozen reference; 0 keeps no reference."""
    critic: CriticSettings = field(default_factory=CriticSettings)
    """The critic's settings, for estimators that need one."""
    micro_batch_tokens: int = setting(16384, at_least=1, identity=False)
    """A micro-batch has at most this many tokens with padding. The limit bounds memory and changes rounding only."""

    group = "training"
