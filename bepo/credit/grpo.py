"""GRPO: one group-relative outcome advantage for every step of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.batch import RolloutBatch
from bepo.core.returns import Std
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class GRPO(OutcomeTerm):
    """Episode-level group-relative credit, A_i = (S_i - mean) / (std + 1e-6) over the group (Shao et al., 2024).

    This is verl-agent's multi-step form, with one deviation: statistics are float64, and ties give exactly 0, where
    verl-agent divides rounding errors.
    """

    name: Literal["grpo"] = "grpo"
    std: Std = "sample"
    """Standard deviation to divide the advantage by; ``none`` centres only (Dr. GRPO, Liu et al., 2025)."""

    label: ClassVar[str] = "GRPO"
    compares_trajectories: ClassVar[bool] = True
    colour: ClassVar[str] = "#0072B2"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Shao et al., 2024, DeepSeekMath, Section 4.1.2"
    traits: ClassVar[Traits] = {
        "needs": "returns of whole episodes",
        "step_credit": "None",
        "temporal": "No",
        "mixing": "None",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch, self.std)
        return Credit(outcome, terms={"outcome": outcome})
