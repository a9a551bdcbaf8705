"""RLOO: an episode's return against the mean of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.credit import Credit, register
from bepo.returns import outcome_advantage
from bepo.rollout import RolloutGroup


@register
@dataclass
class RLOO:
    """Leave-one-out outcome credit, A_i = n / (n - 1) (S_i - mean) over a pool of n (Ahmadian et al., 2024, Eq. 7).

    ``pool="trajectory"`` is what the name means; verl-agent's default, ``"record"``, leaves out one record and keeps
    the other records of the same trajectory in the baseline, and presumably made the published row.
    """

    name: Literal["rloo"] = "rloo"
    pool: Literal["record", "trajectory"] = "trajectory"
    invalid_penalty: float = 0.1
    """Taken off the score of a record whose action is invalid, on that record alone (verl-agent)."""
    singleton: Literal["zero", "raw"] = "zero"
    """Advantage of a pool of one; verl-agent: raw."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Ahmadian et al., 2024, Back to Basics, Eq. 7"
    reconstruction: ClassVar[bool] = False

    def __call__(self, group: RolloutGroup) -> Credit:
        outcome = outcome_advantage(group, self.pool, "none", self.invalid_penalty, self.singleton)
        members = group.group_size if self.pool == "record" else np.bincount(group.trajectory_group)
        scale = members / np.maximum(members - 1, 1)
        advantage = scale[group.group] * outcome
        return Credit(advantage, terms={"outcome": advantage})
