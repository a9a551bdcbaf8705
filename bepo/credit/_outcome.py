"""The outcome term that many estimators share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.returns import Pool, Singleton, Std, outcome_advantage
from bepo.core.settings import setting
from bepo.credit import Estimator


@dataclass
class OutcomeTerm(Estimator):
    """Base of estimators with GRPO's group-relative outcome term."""

    pool: Pool = "transition"
    """Pool of the outcome term's mean and standard deviation: transitions (verl-agent), or trajectories (GRPO's
    equation)."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score of an invalid transition, as in verl-agent."""
    singleton: Singleton = "raw"
    """Outcome term of a pool with one member: its own score (``raw``, verl-agent), or 0."""

    def outcome(self, batch: RolloutBatch, std: Std = "sample") -> Float[np.ndarray, " N"]:
        """Return the outcome term of each transition."""
        return outcome_advantage(batch, self.pool, std, self.invalid_penalty, self.singleton)
