"""RLOO: each episode's return minus the mean return of the other episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.returns import Pool, Singleton, outcome_advantage
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register
from bepo.credit._audit import audit


@register
@dataclass
class RLOO(Estimator):
    """Leave-one-out outcome credit, A_i = n / (n - 1) (S_i - mean) over a pool of n (Ahmadian et al., 2024, Eq. 7).

    With a pool of trajectories it is the usual RLOO. A pool of transitions leaves out one transition, and the baseline
    keeps the other transitions of the same trajectory.
    """

    name: Literal["rloo"] = "rloo"
    pool: Pool = "transition"
    """Pool of the mean: transitions (verl-agent, and so presumably the published row), or trajectories."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the score of a transition with an invalid action, only at that transition (verl-agent)."""
    singleton: Singleton = "raw"
    """Advantage of a pool with one member: its own score (``raw``, verl-agent), or 0."""

    label: ClassVar[str] = "RLOO"
    compares_trajectories: ClassVar[bool] = True
    colour: ClassVar[str] = "#000000"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Ahmadian et al., 2024, Back to Basics, Eq. 7"
    traits: ClassVar[Traits] = {
        "needs": "returns of whole episodes",
        "step_credit": "None",
        "temporal": "No",
        "mixing": "None",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = outcome_advantage(batch, self.pool, "none", self.invalid_penalty, self.singleton)
        members = batch.transitions_per_group if self.pool == "transition" else np.bincount(batch.trajectory_group)
        scale = members / np.maximum(members - 1, 1)
        advantage = scale[batch.group] * outcome
        return Credit(advantage, terms={"outcome": advantage}, metrics=audit(RolloutGraph(batch), advantage))
