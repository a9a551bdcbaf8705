"""GRPO: one group-relative outcome advantage for every step of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.returns import Pool, Singleton, Std, outcome_advantage
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register
from bepo.credit._audit import audit


@register
@dataclass
class GRPO(Estimator):
    """Episode-level group-relative credit, A_i = (S_i - mean) / (std + 1e-6) over the group (Shao et al., 2024).

    This is verl-agent's multi-step form, with one deviation: statistics are float64, and ties give exactly 0, where
    verl-agent divides rounding errors.
    """

    name: Literal["grpo"] = "grpo"
    pool: Pool = "transition"
    """Pool of mean and standard deviation: transitions (verl-agent), or trajectories (the paper's equation)."""
    std: Std = "sample"
    """Standard deviation to divide the advantage by; ``none`` centres only (Dr. GRPO, Liu et al., 2025)."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the score of a transition with an invalid action, only at that transition (verl-agent)."""
    singleton: Singleton = "raw"
    """Advantage of a pool with one member: its own score (``raw``, verl-agent), or 0."""

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
        outcome = outcome_advantage(batch, self.pool, self.std, self.invalid_penalty, self.singleton)
        return Credit(outcome, terms={"outcome": outcome}, metrics=audit(RolloutGraph(batch), outcome))
