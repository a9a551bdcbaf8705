"""RLOO: each episode's return minus the mean return of the other episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.returns import outcome_advantage
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class RLOO(OutcomeTerm):
    """Leave-one-out outcome credit, A_i = n / (n - 1) (S_i - mean) over a pool of n (Ahmadian et al., 2024, Eq. 7).

    With a pool of trajectories it is the usual RLOO. A pool of transitions leaves out one transition, and the baseline
    keeps the other transitions of the same trajectory.
    """

    name: Literal["rloo"] = "rloo"

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
        advantage = self.with_progress(batch, scale[batch.group] * outcome)
        return Credit(advantage, terms={"outcome": advantage})
