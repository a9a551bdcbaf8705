"""GAGPO: temporal-difference credit on the mean return of matching states. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph
from bepo.core.returns import Std, gae, standardise
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class GAGPO(Estimator):
    """GAE over the residuals of V(s), the mean discounted return from s, standardised in the group (Zhu et al., 2026).

    RECONSTRUCTION: the authors' code is not public. Besides the defaults below, we assume:
    1. Values are pooled in the task group only.
    2. The value of a state that occurs once is its own return.
    3. Every end has the value 0.
    4. All transitions have the same weight.

    With these assumptions it equals Gated-BEPO with 0 iterations, without gate and outcome term. The method's
    action-level importance ratio is ``loss.ratio=action``.
    """

    name: Literal["gagpo"] = "gagpo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns and residuals."""
    gae_lambda: float = setting(0.8, at_least=0, at_most=1)
    """Decay of residuals along the trajectory, times ``gamma``."""
    step_std: Std = "sample"
    """Standard deviation to divide the advantage by, over all transitions of the group; ``none`` centres only."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the reward of an invalid transition before returns are computed."""

    label: ClassVar[str] = "GAGPO"
    colour: ClassVar[str] = "#CC79A7"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Zhu et al., 2026, GAGPO"
    reconstruction: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "step rewards, state and successor keys",
        "step_credit": "Return proxy",
        "temporal": "Yes",
        "mixing": "None",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        batch = batch.penalised(self.invalid_penalty)
        graph = RolloutGraph(batch)
        value = graph.monte_carlo(self.gamma)
        residual = graph.residuals(value, self.gamma)
        raw = gae(batch, residual, self.gamma, self.gae_lambda)
        step = standardise(raw, batch.group_start, self.step_std)
        terms = {"step": step, "step_raw": raw, "residual": residual, "value": value[batch.state]}
        return Credit(step, terms=terms, graph=graph)
