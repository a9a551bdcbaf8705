"""GiGPO: episode credit, plus each step's return relative to the other steps from the same state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.interning import interned
from bepo.core.returns import Std, discounted_returns, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class GiGPO(OutcomeTerm):
    """A_i = A_E_i + step_weight A_S_i, where A_S compares discounted returns within a state (Feng et al., 2025).

    ``std="sample"`` is the published row "w/ std" (verl-agent's ``mean_std_norm`` in its ALFWorld script). ``"none"``
    is the row "w/o std" (``mean_norm`` in its WebShop and Sokoban scripts). Ties and singletons give exactly 0.
    """

    name: Literal["gigpo"] = "gigpo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the step term."""
    std: Std = "sample"
    """Standard deviation to divide both terms by; ``none`` centres only."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score of an invalid transition and, after discounting, from its step return."""
    state_scope: Literal["group", "batch"] = setting("group", neutral=True)
    """Where equal states are matched: in the task's group, or in the whole batch (ROLL), so that tasks mix."""
    similarity: float | None = setting(None, at_least=0, at_most=1)
    """States whose texts have at least this difflib ratio are merged; null matches exactly. A state joins the first
    cluster whose first member is similar enough, so the result depends on the order of transitions."""

    label: ClassVar[str] = "GiGPO"
    colour: ClassVar[str] = "#009E73"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Feng et al., 2025, GiGPO"
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state keys",
        "step_credit": "State outcomes",
        "temporal": "No",
        "mixing": "Fixed",
    }

    @property
    def mixes_groups(self) -> bool:
        return self.state_scope == "batch" or super().mixes_groups

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch, self.std)
        matched = batch if self.similarity is None else _merged(batch, self.similarity)
        matched = matched if self.state_scope == "group" else _across_groups(matched)
        returns = discounted_returns(batch, self.gamma) - self.invalid_penalty * ~batch.valid
        step = standardise_by_state(matched, returns, self.std)
        advantage = outcome + self.step_weight * step
        return Credit(advantage, terms={"outcome": outcome, "step": step}, graph=RolloutGraph(matched))


def _across_groups(batch: RolloutBatch) -> RolloutBatch:
    """Return the same batch with one ID for all states with one key."""
    ids = interned(batch.state_key)
    return replace(batch, state=ids[batch.state], next_state=ids[batch.next_state])


def _merged(batch: RolloutBatch, threshold: float) -> RolloutBatch:
    """Return the same batch with one ID for all similar states of a group."""
    leaders: dict[int, list[int]] = {}
    target = np.arange(batch.n_states)
    for state in dict.fromkeys(batch.state.tolist()):
        known = leaders.setdefault(int(batch.state_group[state]), [])
        text = batch.state_key[state]
        alike = (k for k in known if SequenceMatcher(None, batch.state_key[k], text).ratio() >= threshold)
        target[state] = next(alike, state)
        if target[state] == state:
            known.append(state)
    return replace(batch, state=target[batch.state], next_state=target[batch.next_state])
