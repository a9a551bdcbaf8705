"""CRBC: action values minus state values after a chosen number of Bellman backups. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve
from bepo.core.returns import discounted_returns, without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class CRBC(OutcomeTerm):
    """A = outcome_weight A_E + step_weight 1{two actions at s} (Q(s, a) - V(s)) / max(sigma(s), floor) (Ren et al.,
    2026).

    Values are of success: V(success) = 1, V(failure) = 0. sigma(s) is the population deviation of Q(s, a) over the
    transitions from s, and all transitions with one state and action share their credit.

    RECONSTRUCTION: the authors' code is not public. We assume that the penalty of an invalid action enters the outcome
    term only, and that the outcome term is verl-agent's.
    """

    name: Literal["crbc"] = "crbc"
    beta: float = setting(0.98, at_least=0, at_most=1)
    """Discount of values."""
    depth: int | None = setting(None, at_least=0, at_most=1000)
    """Bellman backups from the mean returns of states; null solves for the fixed point. 0 takes mean returns of actions
    and states, as RTMC does."""
    floor: float = setting(0.1, above=0)
    """Least deviation that the step term is divided by."""
    step_weight: float = setting(5.0, at_least=0)
    """Weight of the step term."""
    outcome_weight: float = setting(1.0, at_least=0)
    """Weight of the outcome term A_E."""

    label: ClassVar[str] = "CRBC"
    colour: ClassVar[str] = "#0000CC"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Ren et al., 2026, Cross-Rollout Bellman Closure (arXiv 2609.35082)"
    reconstruction: ClassVar[bool] = True
    needs_actions: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "success, state and successor keys, actions",
        "step_credit": "Mean Bellman",
        "temporal": "Yes",
        "mixing": "Fixed",
    }

    @property
    def solves(self) -> bool:
        return self.depth is None

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch)
        graph = RolloutGraph(batch.paying_success(self.beta))
        targets = self._targets(graph)
        gap = without_rounding(graph.pair_mean(targets) - graph.state_mean(targets)[batch.state])
        sigma = np.sqrt(graph.state_mean(gap * gap))
        step = (graph.actions >= 2)[batch.state] * gap / np.maximum(sigma, self.floor)[batch.state]
        advantage = self.outcome_weight * outcome + self.step_weight * step
        return Credit(advantage, terms={"outcome": outcome, "step": step, "step_raw": gap})

    def _targets(self, graph: RolloutGraph) -> Float[np.ndarray, " N"]:
        """Return the target of each transition: its mean over a state and action is Q, over a state V."""
        if self.depth == 0:
            return discounted_returns(graph.batch, self.beta)
        if self.depth is None:
            return graph.targets(solve(graph, self.beta).value, self.beta)
        value = graph.monte_carlo(self.beta)
        for _ in range(self.depth - 1):
            value = graph.backup(value, self.beta, "mean", 1.0)
        return graph.targets(value, self.beta)
