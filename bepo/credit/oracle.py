"""Oracle: a reference that sees the expert's distance to success in every state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.returns import EPSILON, outcome_advantage, standardise
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register

_SPARE = np.array([0, 2, 4, 8, 16])  # lower ends of the classes of spare steps
_PRIOR = 8.0  # weight, in transitions, of the success rate by distance alone


@register
@dataclass
class Oracle(Estimator):
    """A privileged reference, not a method: it shows how much headroom for credit assignment a setting has.

    It is not an upper bound: PPO is above it in places.

    It sees d and d', the number of steps that the environment's expert needs before and after each transition
    (the columns ``expert_steps`` and ``next_expert_steps``).

    ``progress`` is clip(d - d', -1, 1), standardised over the group. It is -1 for a step into a state from which the
    expert finds no solution, and 0 for every later step.

    ``residual`` fits the success rate of the batch's transitions to d and to the number of spare steps. The advantage
    is the change of this value over a transition, divided by its root mean square over the batch. The groups of a
    batch therefore do influence each other. ``outcome_residual`` adds it to GRPO's advantage.

    Raises ``UserError`` for rollouts without expert steps.
    """

    name: Literal["oracle"] = "oracle"
    variant: Literal["progress", "residual", "outcome_residual"] = "progress"
    """``progress`` for prompts that show the whole state, else ``outcome_residual`` (docs/credit.md)."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score of an invalid transition, as in GRPO."""

    label: ClassVar[str] = "Oracle (privileged)"
    colour: ClassVar[str] = "#7F7F7F"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "this project; privileged, not a method"
    privileged: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"expert_steps", "next_expert_steps"})
    traits: ClassVar[Traits] = {
        "needs": "the environment's expert",
        "step_credit": "Expert's distance to success",
        "temporal": "Yes",
        "mixing": "None",
    }

    @property
    def mixes_groups(self) -> bool:
        return self.variant != "progress"

    def without_effect(self) -> dict[str, str]:
        if self.variant == "outcome_residual":
            return {}
        return {"invalid_penalty": f"credit.variant={self.variant} has no outcome term"}

    def __call__(self, batch: RolloutBatch) -> Credit:
        before, after = (batch.column(name, may_be_nan=True) for name in ("expert_steps", "next_expert_steps"))
        if self.variant == "progress":
            terms = {"step": standardise(progress(before, after), batch.group_start)}
        else:
            terms = {"step": _residual(batch, before, after)}
        if self.variant == "outcome_residual":
            terms["outcome"] = outcome_advantage(batch, invalid_penalty=self.invalid_penalty, singleton="raw")
        advantage = sum(terms.values(), np.zeros(len(batch)))
        return Credit(advantage, terms=terms)


def progress(before: Float[np.ndarray, " N"], after: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Return by how many steps each transition gets closer to success, clipped to [-1, 1].

    NaN marks a state without a solution: -1 for a transition into it, 0 for a transition from it.
    """
    step = np.where(np.isnan(after), -1.0, np.clip(before - after, -1, 1))
    return np.where(np.isnan(before), 0.0, step)


def _residual(batch: RolloutBatch, before: np.ndarray, after: np.ndarray) -> Float[np.ndarray, " N"]:
    """Return V(s') - V(s) over its root mean square, for the fitted success rate V. An end's value is its outcome."""
    left = int(batch.step.max()) + 1 - batch.step  # the longest trajectory; one may be cut before the time limit
    fit = _SuccessRate(before, left - before, batch.success[batch.trajectory])
    value_after = np.where(batch.terminal == Terminal.NONE, fit(after, left - 1 - after), 0.0)
    value_after = np.where(batch.terminal == Terminal.SUCCESS, 1.0, value_after)
    residual = value_after - fit(before, left - before)
    return residual / (np.sqrt((residual**2).mean()) + EPSILON)


class _SuccessRate:
    """Success rates of transitions by distance and class of spare steps; 0 if success in time is impossible."""

    def __init__(self, distance: np.ndarray, spare: np.ndarray, success: np.ndarray) -> None:
        self._longest = int(np.nanmax(distance, initial=0))
        cells = (self._longest + 1, len(_SPARE))
        count, total = np.zeros(cells), np.zeros(cells)
        possible, at = self._cells(distance, spare)
        np.add.at(count, at, 1.0)
        np.add.at(total, at, success[possible].astype(float))
        by_distance = total.sum(1, keepdims=True) / np.maximum(count.sum(1, keepdims=True), 1)
        self._rate = (total + _PRIOR * by_distance) / (count + _PRIOR)

    def __call__(self, distance: np.ndarray, spare: np.ndarray) -> Float[np.ndarray, " N"]:
        rate = np.zeros(len(distance))
        possible, at = self._cells(distance, spare)
        rate[possible] = self._rate[at]
        return rate

    def _cells(self, distance: np.ndarray, spare: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        possible = spare >= 0  # False where the distance is NaN
        d = np.minimum(distance[possible], self._longest).astype(int)
        return possible, (d, np.searchsorted(_SPARE, spare[possible], side="right") - 1)
