"""SALT: the outcome advantage, averaged over equal steps of the group's trajectories. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Int

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.returns import Pool, Singleton, Std
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class SALT(OutcomeTerm):
    """A_i = mean of A_E over all transitions of the group with the same state, action and next state (Li et al., 2025).

    The next state is the one that was observed. So the last steps of a success and of a failure can be equal.

    RECONSTRUCTION: the authors' code is not public, and descriptions differ in what makes two states equal: the state
    alone (``history=0``), or also the last three states and actions (``history=3``).
    """

    name: Literal["salt"] = "salt"
    history: int = setting(0, at_least=0, at_most=1000)
    """Number of past states and actions that equal steps must share, too."""
    std: Std = "sample"
    """Standard deviation to divide the outcome term by; ``none`` centres only."""
    pool: Pool = "trajectory"
    """Pool of the outcome term's mean and standard deviation: trajectories (GRPO's equation), or transitions."""
    singleton: Singleton = "zero"
    """Outcome term of a pool with one member: 0, or its own score (``raw``, verl-agent)."""

    label: ClassVar[str] = "SALT"
    colour: ClassVar[str] = "#66CC00"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Li et al., 2025, SALT (arXiv 2510.20022)"
    reconstruction: ClassVar[bool] = True
    needs_actions: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state and successor keys, actions",
        "step_credit": "Shared steps",
        "temporal": "No",
        "mixing": "None",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch, self.std)
        same = same_steps(batch, self.history)
        advantage = (np.bincount(same, weights=outcome) / np.bincount(same))[same]
        return Credit(advantage, terms={"outcome": outcome})


def same_steps(batch: RolloutBatch, history: int) -> Int[np.ndarray, " N"]:
    """Return an id of each transition's state, action and next state, and of the ``history`` steps before it.

    Transitions with fewer past steps must have the same number of them.
    """
    pair = RolloutGraph(batch).pair.astype(np.int64)
    ids = np.unique(pair * batch.n_states + batch.next_state, return_inverse=True)[1]
    for back in range(1, history + 1):
        past = np.where(batch.step >= back, np.roll(pair, back), -1) + 1
        ids = np.unique(ids * np.int64(len(batch) + 1) + past, return_inverse=True)[1]
    return ids
