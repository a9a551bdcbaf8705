"""Optimisation settings shared by every backend; the defaults are the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from bepo.errors import UserError


@dataclass
class CriticSettings:
    """verl-agent's PPO critic: the policy's backbone with a scalar head and an optimiser of its own."""

    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    clip: float = 0.5
    """A value may leave its value at rollout time by this much before its loss stops falling."""
    grad_clip: float = 1.0


@dataclass
class Optimisation:
    """PPO on records (paper, supplement, Table "Common final Gated-BEPO and actor-optimization hyperparameters").

    ``dual_clip`` is verl-agent's, not the paper's.
    """

    learning_rate: float = 1e-6
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.01
    epochs: int = 1
    """PPO epochs over the records of an update."""
    minibatch: int = 256
    """Records of one optimiser step."""
    clip: float = 0.2
    """Importance ratios are clipped to 1 - clip .. 1 + clip."""
    dual_clip: float | None = 3.0
    """Bound on the loss of a negative advantage, in multiples of it (Ye et al., 2020); null for none."""
    ratio: Literal["token", "action"] = "token"
    """Importance ratio of each token, or one length-normalised ratio of the whole response (GAGPO, GSPO)."""
    grad_clip: float = 1.0
    """Global gradient norm."""
    entropy: float = 0.001
    kl: float = 0.01
    """Weight of the KL loss (low-variance k3) against the frozen reference; 0 needs no reference."""
    critic: CriticSettings = field(default_factory=CriticSettings)
    """For estimators that need one."""
    max_tokens: int = 16384
    """Padded tokens of one micro-batch: bounds memory, changes no result beyond rounding."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epochs", "minibatch", "grad_clip", "max_tokens"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"training.{name}={getattr(self, name)}: must be above 0")
        for name in ("clip", "kl", "entropy", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"training.{name}={getattr(self, name)}: must not be negative")
