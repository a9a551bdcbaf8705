"""GRAFT: GAE over the rollout graph, standardised within a state, without an outcome term. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.graph import N_TERMINALS, RolloutGraph, solve
from bepo.core.returns import Std, standardise_by_state, without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class GRAFT(Estimator):
    """A_t = D_t / std within the state; D_t = delta_t + sum over k of (gamma lambda)^k dbar_k (Yao et al., 2026).

    delta = gamma V(s') - V(s), V the fixed point with V(success) = 1 and V(failure) = 0. dbar_k is the mean of delta
    over the edges k steps ahead: those that leave the states whose shortest distance from s' in the graph is k - 1. The
    sum has as many terms as the trajectory still has steps. D is centred within a state. A state that is visited once
    has the sign of D.

    RECONSTRUCTION: the authors' code is not public. The paper says both "raw edge instances" and "set of edges". Over
    instances every dbar_k is 0 at the fixed point (docs/credit.md), so we take the set: a state, an action and a
    successor count once (failure and truncation are two successors). The paper's sum ends at k = T - t; we count t from
    1, and from 0 it would have one term more. We assume that trajectories end in absorbing states, and that the penalty
    of an invalid action is subtracted from the advantage. The paper's loss, GRPO-C, has one importance ratio an action
    and is a mean over actions: ``credit=graft_action_ratio``. Raises ``UserError`` for rollouts without actions.
    """

    name: Literal["graft"] = "graft"
    gamma: float = setting(0.99, at_least=0, at_most=1)
    """Discount of values and residuals."""
    gae_lambda: float = setting(0.95, at_least=0, at_most=1)
    """Decay of the residuals k steps ahead. The paper has 0.95 on ALFWorld, 0.8 on WebShop; 0 leaves delta alone."""
    std: Std = "sample"
    """Standard deviation to divide the residuals of a state by; ``none`` does not divide."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the advantage of an invalid transition."""

    label: ClassVar[str] = "GRAFT"
    colour: ClassVar[str] = "#664400"
    method_version: ClassVar[int] = 2
    citation: ClassVar[str] = "Yao et al., 2026, Back to the Definition (arXiv 2609.28963)"
    reconstruction: ClassVar[bool] = True
    needs_actions: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "success, state, action and successor keys",
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
        raw = without_rounding(residual + _ahead(graph, residual, self.gamma * self.gae_lambda))
        once = np.sign(raw) if self.std != "none" else raw
        step = np.where(graph.visits[batch.state] == 1, once, standardise_by_state(batch, raw, self.std))
        advantage = step - self.invalid_penalty * ~batch.valid
        return Credit(advantage, terms={"step": step, "step_raw": raw, "residual": residual})


def _ahead(graph: RolloutGraph, residual: Float[np.ndarray, " N"], discount: float) -> Float[np.ndarray, " N"]:
    """Return the sum of discount^k dbar_k over the k steps that each transition's trajectory goes on."""
    from scipy.sparse import csr_array, eye_array

    batch, n = graph.batch, graph.batch.n_states
    first = np.unique(graph.pair * np.int64(n + N_TERMINALS) + graph.successor + N_TERMINALS, return_index=True)[1]
    source, target = batch.state[first], graph.successor[first]
    total, count = np.bincount(source, residual[first], minlength=n), np.bincount(source, minlength=n)
    inner = target >= 0
    edges = csr_array((np.ones(inner.sum(), bool), (source[inner], target[inner])), shape=(n, n))
    left = (np.bincount(batch.trajectory) - 1)[batch.trajectory] - batch.step
    ahead, layer = np.zeros(len(batch)), eye_array(n, dtype=bool, format="csr")  # layer: states k - 1 steps from each
    seen = layer
    for k in range(1, left.max() + 1 if discount else 1):
        mean = (layer @ total) / np.maximum(layer @ count, 1)
        goes_on = left >= k
        ahead[goes_on] += discount**k * mean[graph.successor[goes_on]]
        layer = csr_array((layer @ edges) > seen)
        if not layer.nnz:
            break
        seen = seen + layer
    return ahead
