"""GRAFT: residuals of graph values, standardised within a state, without an outcome term. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve
from bepo.core.returns import Std, standardise_by_state, without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class GRAFT(Estimator):
    """A = (gamma V(s') - V(s)) / std within the state, V the fixed point with V(success) = 1 (Yao et al., 2026).

    The paper adds means of residuals k steps ahead in the graph. Over all transitions these means are exactly 0 at the
    fixed point, so they are left out here (docs/credit.md).

    RECONSTRUCTION: the authors' code is not public. We assume that trajectories end in absorbing states, and that the
    penalty of an invalid action is subtracted from the advantage. The paper's loss, GRPO-C, has one importance ratio an
    action and is a mean over actions: ``credit=graft_action_ratio``.
    """

    name: Literal["graft"] = "graft"
    gamma: float = setting(0.99, at_least=0, at_most=1)
    """Discount of values and residuals."""
    std: Std = "sample"
    """Standard deviation to divide the residuals of a state by; ``none`` does not divide."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the advantage of an invalid transition."""

    label: ClassVar[str] = "GRAFT"
    colour: ClassVar[str] = "#664400"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Yao et al., 2026, Back to the Definition (arXiv 2609.28963)"
    reconstruction: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "success, state and successor keys",
        "step_credit": "Mean Bellman",
        "temporal": "Yes",
        "mixing": "None",
    }

    @property
    def solves(self) -> bool:
        return True

    def __call__(self, batch: RolloutBatch) -> Credit:
        graph = RolloutGraph(batch.paying_success(self.gamma))
        residual = without_rounding(graph.residuals(solve(graph, self.gamma).value, self.gamma))
        step = standardise_by_state(batch, residual, self.std)
        advantage = step - self.invalid_penalty * ~batch.valid
        return Credit(advantage, terms={"step": step, "step_raw": residual})
