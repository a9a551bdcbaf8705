"""GraphHCA: the change of the log probability of success on the rollout graph. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve, with_terminals
from bepo.core.returns import Std, standardise_by_state, without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class GraphHCA(OutcomeTerm):
    """A = A_E + step_weight z_s(log max(Phi(s'), floor) - log max(Phi(s), floor)) (Zhu et al., 2026).

    Phi(s) = gamma mean Phi(s') is the fixed point with Phi(success) = 1 and Phi(failure) = 0; z_s standardises within a
    state.

    RECONSTRUCTION: the authors' code is not public. We assume that trajectories end in absorbing states, and that the
    outcome term and its penalty are verl-agent's.
    """

    name: Literal["graphhca"] = "graphhca"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of Phi."""
    floor: float = setting(0.01, above=0, at_most=1)
    """Least Phi whose logarithm is taken."""
    std: Std = "population"
    """Standard deviation to divide the step term of a state by; ``none`` centres only."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the step term."""

    label: ClassVar[str] = "GraphHCA"
    colour: ClassVar[str] = "#444466"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Zhu et al., 2026, GraphHCA (arXiv 2609.35084)"
    reconstruction: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "success, state and successor keys",
        "step_credit": "Log mean Bellman",
        "temporal": "Yes",
        "mixing": "Fixed",
    }

    @property
    def solves(self) -> bool:
        return True

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch)
        graph = RolloutGraph(batch.paying_success(self.gamma))
        potential = with_terminals(solve(graph, self.gamma).value, success=1.0)
        log = np.log(np.maximum(potential, self.floor))
        change = without_rounding(log[graph.successor] - log[batch.state])
        step = standardise_by_state(batch, change, self.std)
        advantage = outcome + self.step_weight * step
        return Credit(advantage, terms={"outcome": outcome, "step": step, "step_raw": change})
