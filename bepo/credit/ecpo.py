"""ECPO: shrunk mean returns of actions, gated by how much of the variance they explain. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.returns import Std, discounted_returns, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm
from bepo.credit.adastep import explained


@register
@dataclass
class ECPO(OutcomeTerm):
    """A = A_E + step_weight rho(s) z_s(m(s, a)), rho(s) = tanh(n(s) / tau) B / (B + W) (Li et al., 2026).

    m(s, a) = (n(s, a) mean return of the action + kappa mean return of the state) / (n(s, a) + kappa). B and W are the
    variances of returns between and within the actions of a state.

    RECONSTRUCTION: the authors' code is not public. The paper's tau and its weight of the step term are unknown; we
    assume 4 and 1. We also assume that mean and deviation of m are over the transitions from a state, that B / (B + W)
    is 0 where all returns are equal, and that an invalid action is penalised in the outcome term only.
    """

    name: Literal["ecpo"] = "ecpo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns."""
    kappa: float = setting(2.0, at_least=0)
    """Visits of an action that are worth its state's mean return."""
    tau: float = setting(4.0, above=0)
    """Visits of a state at which the gate's ramp reaches tanh(1) = 0.76."""
    std: Std = "population"
    """Standard deviation to divide the step term of a state by; ``none`` centres only."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the step term."""

    label: ClassVar[str] = "ECPO"
    colour: ClassVar[str] = "#EE00AA"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Li et al., 2026, Evidence-Calibrated Policy Optimization (arXiv 2606.05885)"
    reconstruction: ClassVar[bool] = True
    needs_actions: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state keys, actions",
        "step_credit": "Action outcomes",
        "temporal": "No",
        "mixing": "Adaptive",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome, graph = self.outcome(batch), RolloutGraph(batch)
        returns = discounted_returns(batch, self.gamma)
        n, of_state = graph.pair_visits, graph.state_mean(returns)[batch.state]
        mean = (n * graph.pair_mean(returns) + self.kappa * of_state) / (n + self.kappa)
        step = standardise_by_state(batch, mean, self.std)
        gate = np.tanh(graph.visits / self.tau) * explained(graph, returns, tied=0.0)
        advantage = outcome + self.step_weight * gate[batch.state] * step
        return Credit(advantage, terms={"outcome": outcome, "step": step, "rho": gate[batch.state]}, gate=gate)
