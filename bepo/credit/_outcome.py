"""The outcome term that many estimators share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.interning import run_starts
from bepo.core.returns import Pool, Singleton, Std, outcome_advantage
from bepo.core.settings import setting
from bepo.credit import Estimator

_EQUAL = 1e-4  # the least deviation of progress in a group that is compared


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
    progress: float = setting(0.0, at_least=0, neutral=True)
    """ProGPO (arXiv 2607.22724; 0.3 there): in groups without a success the outcome term is this weight, times the
    share of such groups in the batch, times the standardised progress of the trajectory. Progress is the number of new
    states per step. 0: not used."""

    @property
    def mixes_groups(self) -> bool:
        return self.progress > 0

    def outcome(self, batch: RolloutBatch, std: Std = "sample") -> Float[np.ndarray, " N"]:
        """Return the outcome term of each transition."""
        term = outcome_advantage(batch, self.pool, std, self.invalid_penalty, self.singleton)
        return self.with_progress(batch, term)

    def with_progress(self, batch: RolloutBatch, term: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return an outcome term with the progress of trajectories in groups without a success."""
        if not self.progress:
            return term
        starts = run_starts(batch.trajectory_group)
        size = np.diff(np.append(starts, batch.n_trajectories))
        failed = np.add.reduceat(batch.success, starts) == 0
        progress = new_states(batch)
        centred = progress - np.repeat(np.add.reduceat(progress, starts) / size, size)
        deviation = np.sqrt(np.add.reduceat(centred**2, starts) / size)
        score = centred / np.repeat(np.maximum(deviation, _EQUAL), size)
        fires = (failed & (deviation >= _EQUAL))[batch.group]
        return np.where(fires, self.progress * failed.mean() * score[batch.trajectory], term)


def new_states(batch: RolloutBatch) -> Float[np.ndarray, " M"]:
    """Return for each trajectory the number of distinct states that it reaches, without its first, per step."""
    first = batch.state[batch.step == 0]
    reached = batch.trajectory * np.int64(batch.n_states) + batch.next_state
    visits = np.unique(reached[batch.next_state != first[batch.trajectory]]) // batch.n_states
    steps = np.bincount(batch.trajectory, minlength=batch.n_trajectories)
    return np.bincount(visits, minlength=batch.n_trajectories) / steps
