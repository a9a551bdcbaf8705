"""VinePPO: values from continuations of the policy itself instead of a critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.returns import without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class VinePPO(Estimator):
    """A_t = r_t + V(s_t+1) - V(s_t), where V is the mean return of ``continuations`` further episodes from the state.

    The value after the last transition is 0. Returns are not discounted, as in the paper. A state is the prompt of an
    action; the paper's states are the steps of a chain of thought.

    For T transitions the policy plays ``continuations`` T further episodes, each from the task's start along the
    recorded actions, so the environment must repeat itself. Only backend=local plays them. Raises ``UserError`` for
    rollouts without continuations.
    """

    name: Literal["vineppo"] = "vineppo"
    continuations: int = setting(4, at_least=1, at_most=1000)
    """Further episodes from each state. The paper takes 9."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the reward of an invalid transition. Continuations pay no penalty."""

    label: ClassVar[str] = "VinePPO"
    colour: ClassVar[str] = "#AA4488"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Kazemnejad et al., 2024, VinePPO (arXiv 2410.01679), equation 6"
    needs: ClassVar[frozenset[str]] = frozenset({"continuation"})
    traits: ClassVar[Traits] = {
        "needs": "an environment that can be reset",
        "step_credit": "Monte-Carlo values of every state",
        "temporal": "Yes",
        "mixing": "None",
    }

    @property
    def n_continuations(self) -> int:
        return self.continuations

    def __call__(self, batch: RolloutBatch) -> Credit:
        value = batch.column("continuation")
        after = np.append(value[1:], 0.0)
        after[batch.last] = 0.0
        reward = batch.penalised(self.invalid_penalty).reward
        scale = np.abs(reward) + np.abs(after) + np.abs(value)
        return Credit(without_rounding(reward + after - value, scale), terms={"value": value})
