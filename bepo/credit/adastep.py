"""AdaStep: GiGPO's step term, weighted in each state by the variance that its actions explain. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.returns import TIE, Std, discounted_returns, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class AdaStep(OutcomeTerm):
    """A = A_E + step_weight w(s) A_S, w(s) = 1 - within-action variance / variance of the returns from s (Wang et al.,
    2026, Eq. 17).

    w(s) is 1 if fewer than two actions were taken in s, if an action was taken once, or if all returns are equal.

    RECONSTRUCTION: the authors' code is not public. We assume GiGPO's settings where the paper says nothing, and that
    the penalty of an invalid action is subtracted after w(s) is estimated.
    """

    name: Literal["adastep"] = "adastep"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns."""
    std: Std = "sample"
    """Standard deviation to divide both terms by; ``none`` centres only."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the step term."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score of an invalid transition and, after discounting, from its step return."""

    label: ClassVar[str] = "AdaStep"
    colour: ClassVar[str] = "#6600CC"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Wang et al., 2026, AdaStep, Eq. 17 (arXiv 2610.03223)"
    reconstruction: ClassVar[bool] = True
    needs_actions: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state keys, actions",
        "step_credit": "State outcomes",
        "temporal": "No",
        "mixing": "Adaptive",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome, graph = self.outcome(batch, self.std), RolloutGraph(batch)
        returns = discounted_returns(batch, self.gamma)
        step = standardise_by_state(batch, returns - self.invalid_penalty * ~batch.valid, self.std)
        weight = np.where(_estimable(graph), explained(graph, returns), 1.0)[batch.state]
        advantage = outcome + self.step_weight * weight * step
        return Credit(
            advantage,
            terms={"outcome": outcome, "step": step, "rho": weight},
            metrics={"mean_step_weight": float(weight.mean())},
        )


def explained(graph: RolloutGraph, returns: Float[np.ndarray, " N"], tied: float = 1.0) -> Float[np.ndarray, " S"]:
    """Return the share of the variance of the returns from each state that lies between its actions.

    It is ``tied`` where all returns are equal.
    """
    state = graph.batch.state
    total = graph.state_mean((returns - graph.state_mean(returns)[state]) ** 2)
    within = graph.state_mean((returns - graph.pair_mean(returns)) ** 2)
    varies = total > TIE**2 * graph.state_mean(returns * returns)
    return np.clip(1 - np.divide(within, total, out=np.full_like(total, 1 - tied), where=varies), 0, 1)


def _estimable(graph: RolloutGraph) -> np.ndarray:
    """Return whether each state has at least two actions, each of them taken at least twice, shape (S,), bool."""
    once = np.bincount(graph.batch.state, weights=graph.pair_visits == 1, minlength=graph.batch.n_states)
    return (graph.actions >= 2) & (once == 0)
