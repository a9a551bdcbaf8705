"""MT-GRPO: rewards are standardised among the steps with one number, then summed to the end. RECONSTRUCTION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.interning import run_starts
from bepo.core.returns import Std, standardise
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class MTGRPO(Estimator):
    """A_t = sum of z_k(r_k) over k >= t, where z_k standardises the rewards of step k over the group (Zeng et al.,
    2025).

    Only trajectories that reach step k are compared there. So the number of means that are subtracted follows from the
    trajectory's own end, and the update is biased: going on costs the mean reward of the later steps (verl, issue
    7244). ``ended="zero"`` counts the reward 0 for trajectories that have ended. Without deviation it is unbiased up to
    the factor (K - 1) / K.

    RECONSTRUCTION: the paper defines it for two turns; this form for any number is that of verl's issue 7244. The
    penalty of an invalid action is subtracted from its reward.
    """

    name: Literal["mt_grpo"] = "mt_grpo"
    ended: Literal["left_out", "zero"] = "left_out"
    """How trajectories that ended before step k count in mean and deviation of step k: not at all, or with reward 0."""
    std: Std = "sample"
    """Standard deviation to divide the rewards of a step by; ``none`` centres only."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the reward of an invalid transition."""

    label: ClassVar[str] = "MT-GRPO"
    colour: ClassVar[str] = "#00CCAA"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Zeng et al., 2025, MT-GRPO (arXiv 2505.11821); verl, issue 7244"
    reconstruction: ClassVar[bool] = True
    compares_trajectories: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "step rewards",
        "step_credit": "Reward to go by step number",
        "temporal": "No",
        "mixing": "None",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        reward, steps = batch.penalised(self.invalid_penalty).reward, int(batch.step.max()) + 1
        at, table = (batch.step, batch.trajectory), np.zeros((steps, batch.n_trajectories))
        if self.ended == "zero":
            table[at] = reward
            table = standardise(table, run_starts(batch.trajectory_group), self.std)
        else:
            order = np.lexsort((batch.step, batch.group))
            compared = batch.group[order] * np.int64(steps) + batch.step[order]
            scores = np.empty(len(batch))
            scores[order] = standardise(reward[order], run_starts(compared), self.std)
            table[at] = scores
        advantage = table[::-1].cumsum(0)[::-1][at]
        return Credit(advantage, terms={"step": table[at]})
