"""GRPO: one group-relative outcome advantage for every step of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.credit import Credit, register
from bepo.returns import Std, outcome_advantage
from bepo.rollout import RolloutGroup


@register
@dataclass
class GRPO:
    """Episode-level group-relative credit, A_i = (S_i - mean) / (std + 1e-6) over the group (Shao et al., 2024).

    The multi-step form of verl-agent. Deviations from it:
    1. Float64 statistics with an exact zero on ties, where verl-agent divides rounding errors.
    2. A pool of one record gives 0; ``singleton="raw"`` gives verl-agent's S_i.
    """

    name: Literal["grpo"] = "grpo"
    pool: Literal["record", "trajectory"] = "record"
    """What mean and deviation are taken over. verl-agent's default, and the paper's equation: records."""
    std: Std = "sample"
    """``none`` centres only (Dr. GRPO, Liu et al., 2025)."""
    invalid_penalty: float = 0.1
    """Taken off the score of a record whose action is invalid, on that record alone (verl-agent)."""
    singleton: Literal["zero", "raw"] = "zero"
    """Advantage of a pool of one."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Shao et al., 2024, DeepSeekMath, Section 4.1.2"
    reconstruction: ClassVar[bool] = False

    def __call__(self, group: RolloutGroup) -> Credit:
        outcome = outcome_advantage(group, self.pool, self.std, self.invalid_penalty, self.singleton)
        return Credit(outcome, terms={"outcome": outcome})
