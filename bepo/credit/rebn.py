"""ReBN: discounted returns, standardised over all transitions of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.returns import discounted_returns, standardise
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class ReBN(Estimator):
    """A = (G - mean) / (std + 1e-6) with mean and sample deviation over the whole batch (Liu et al., 2025, GEM).

    Tasks are not told apart: the steps of an easy task are better than the mean, whatever the agent does. GEM adds 1e-9
    to the deviation and has no penalty of invalid actions; it is subtracted from the reward here.
    """

    name: Literal["rebn"] = "rebn"
    gamma: float = setting(1.0, at_least=0, at_most=1)
    """Discount of returns: 1 in GEM's recipes with tools and 0.9 in its games."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the reward of an invalid transition before returns are computed."""

    label: ClassVar[str] = "ReBN"
    colour: ClassVar[str] = "#AA0000"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Liu et al., 2025, GEM (arXiv 2510.01051)"
    traits: ClassVar[Traits] = {
        "needs": "step rewards",
        "step_credit": "Reward to go",
        "temporal": "No",
        "mixing": "None",
    }

    @property
    def mixes_groups(self) -> bool:
        return True

    def __call__(self, batch: RolloutBatch) -> Credit:
        returns = discounted_returns(batch.penalised(self.invalid_penalty), self.gamma)
        advantage = standardise(returns, np.zeros(1, int))
        return Credit(advantage, terms={"returns": returns})
