"""OTB: returns against the group's mean return, weighted by how uncertain the responses were so far. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.interning import run_starts
from bepo.core.returns import discounted_returns, without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class OTB(Estimator):
    """A_t = G_t - sum of W_t G_t / sum of W_t over the trajectories of the group that reach step t (Li et al., 2026).

    W_t sums 1 - 2 p + sum of squared probabilities over the tokens up to step t, the squared gradient by the logits. A
    step that no other trajectory of the group reaches keeps its return, as in verl with ``handle_zero_tail``.

    RECONSTRUCTION: verl's code has a baseline for each token. Here it is one for each step, since an action is one
    response. The penalty of an invalid action is subtracted from its reward. Raises ``UserError`` for rollouts without
    energies.
    """

    name: Literal["otb"] = "otb"
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the reward of an invalid transition before returns are computed."""

    label: ClassVar[str] = "OTB"
    colour: ClassVar[str] = "#EE66EE"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Li et al., 2026, Optimal Token Baseline (arXiv 2602.07078)"
    reconstruction: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"energy"})
    traits: ClassVar[Traits] = {
        "needs": "step rewards, token probabilities",
        "step_credit": "Reward to go by step number",
        "temporal": "No",
        "mixing": "None",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        returns = discounted_returns(batch.penalised(self.invalid_penalty), 1.0)
        table = np.zeros((int(batch.step.max()) + 1, batch.n_trajectories))
        table[batch.step, batch.trajectory] = batch.column("energy")
        weight = table.cumsum(0)[batch.step, batch.trajectory]
        order = np.lexsort((batch.step, batch.group))
        starts = run_starts(batch.group[order] * np.int64(len(table)) + batch.step[order])
        size = np.diff(np.append(starts, len(batch)))
        total = np.add.reduceat(weight[order], starts)
        of_returns = np.add.reduceat((weight * returns)[order], starts)
        baseline = np.divide(of_returns, total, out=np.zeros(len(starts)), where=(total > 0) & (size > 1))
        advantage = np.empty(len(batch))
        advantage[order] = returns[order] - np.repeat(baseline, size)
        return Credit(without_rounding(advantage, np.abs(returns)), terms={"returns": returns, "energy": weight})
