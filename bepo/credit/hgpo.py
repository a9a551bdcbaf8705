"""HGPO: each step's return relative to steps with the same recent history, for several history lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.interning import run_starts
from bepo.core.returns import EPSILON, Std, discounted_returns, outcome_advantage, standardise
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class HGPO(Estimator):
    """A_i = sum_k w_k A^(k)_i / (sum_k w_k + 1e-6) over history levels k = 0..history (He et al., 2026).

    Level k compares transitions whose last k + 1 states agree, at any time of any trajectory of the group. A
    transition drops a level that it shares with no other transition.
    """

    name: Literal["hgpo"] = "hgpo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns."""
    history: int = setting(2, at_least=0, at_most=1000)
    """The longest history, in past states; level k compares k + 1 states."""
    alpha: float = setting(1.0, at_least=0)
    """Exponent of the level weights."""
    std: Std = "population"
    """Standard deviation to divide each level by; official scripts: ``population`` on ALFWorld, ``none`` on WebShop."""
    level_offset: int = setting(2, at_least=1)
    """c in w_k = (k + c)^alpha: 2 in the official code, 1 in the paper."""
    drop_zero: bool = True
    """Whether to drop levels with an advantage of exactly 0 too, as in the official code but not in the paper."""
    base_group: bool = False
    """Whether to add the episode advantage as a further level of weight 1."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the return of an invalid transition after discounting, only at that transition."""

    label: ClassVar[str] = "HGPO"
    colour: ClassVar[str] = "#E69F00"
    method_version: ClassVar[int] = 2
    citation: ClassVar[str] = "He et al., 2026, HGPO"
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state keys in order",
        "step_credit": "History outcomes",
        "temporal": "No",
        "mixing": "Fixed",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        returns = discounted_returns(batch, self.gamma) - self.invalid_penalty * ~batch.valid
        total, weight = np.zeros(len(batch)), np.zeros(len(batch))
        for level, transitions, ids in suffixes(batch, self.history):
            advantage, used = self._level(returns[transitions], ids)
            w = (level + self.level_offset) ** self.alpha * used
            total[transitions] += w * advantage
            weight[transitions] += w
        if self.base_group:
            std = "none" if self.std == "none" else "sample"
            episode = outcome_advantage(batch, "transition", std, self.invalid_penalty)
            used = (episode != 0) if self.drop_zero else np.ones(len(batch))
            total, weight = total + used * episode, weight + used
        advantage = total / (weight + EPSILON)
        without = float((weight == 0).mean())
        return Credit(advantage, terms={"step": advantage}, metrics={"transitions_without_credit": without})

    def _level(self, returns: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the advantage of each transition at one level, and whether the level counts for it."""
        order = np.argsort(ids, kind="stable")
        advantage = np.empty(len(ids))
        advantage[order] = standardise(returns[order], run_starts(ids[order]), self.std)
        used = np.bincount(ids)[ids] > 1
        return advantage, used & (advantage != 0) if self.drop_zero else used


def suffixes(batch: RolloutBatch, history: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield for each level: its number, the transitions with enough past states, and an ID of each transition's last
    level + 1 states."""
    ids = batch.state.astype(np.int64)
    for level in range(history + 1):
        transitions = np.flatnonzero(batch.step >= level)
        if not len(transitions):
            return
        if level:
            pair = ids[transitions] * np.int64(batch.n_states) + batch.state[transitions - level]
            ids[transitions] = np.unique(pair, return_inverse=True)[1]
        yield level, transitions, ids[transitions]
