"""Batch-BEPO: baselines and Bellman values that are shrunk from the group to the batch as far as tasks are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve
from bepo.core.returns import (
    EPSILON,
    between_share,
    discounted_returns,
    gae,
    standardise,
    standardise_by_state,
    without_rounding,
)
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register
from bepo.credit.graphgpo import graph_reward

_WHOLE = np.zeros(1, int)
"""The batch as one group."""


@register
@dataclass
class BatchBEPO(Estimator):
    """A = A_FP + outcome_weight A_out + graph_weight A_G, a method of this project.

    rho is the share of the variance of returns between groups (ICC), estimated in the batch. The mean of n returns of a
    group, shrunk to the batch's mean, has the weight n rho / (n rho + 1 - rho): all of it where tasks differ much
    (rho = 1), nothing where they are alike (rho = 0).

    A_out is an episode's return minus the shrunk mean of its group's other episodes, over the root mean square of this
    in the batch. With rho = 1 its baseline is RLOO's, with rho = 0 ReBN's. A_FP are residuals of Bellman values,
    averaged over equal actions and standardised over the batch; each state has (1 - rho) / rho further visits that are
    worth its group's shrunk mean. A_G is GraphGPO's step term.

    The lab and recorded rollouts chose the parts and the defaults (docs/lab.md, paper/lab/search.csv).
    """

    name: Literal["batch_bepo"] = "batch_bepo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns, values and residuals."""
    gae_lambda: float = setting(0.8, at_least=0, at_most=1)
    """Decay of residuals along the trajectory, times ``gamma``; 0 takes each step's own residual."""
    outcome_weight: float = setting(0.5, at_least=0)
    """Weight of the outcome term A_out."""
    graph_weight: float = setting(0.25, at_least=0)
    """Weight of GraphGPO's step term A_G."""
    omega: float = setting(0.8, above=0, at_most=1)
    """Distance discount of A_G."""
    icc: float | None = setting(None, at_least=0, at_most=1)
    """The share rho of the variance of returns between groups; null: it is estimated in every batch."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the advantage of an invalid transition."""

    label: ClassVar[str] = "Batch-BEPO"
    colour: ClassVar[str] = "#551133"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "this project"
    needs_actions: ClassVar[bool] = True
    traits: ClassVar[Traits] = {
        "needs": "step rewards, state and successor keys, actions",
        "step_credit": "Shrunk mean Bellman, graph distance",
        "temporal": "Yes",
        "mixing": "Fixed",
    }

    @property
    def mixes_groups(self) -> bool:
        return True

    @property
    def solves(self) -> bool:
        return True

    def __call__(self, batch: RolloutBatch) -> Credit:
        returns, group = batch.episode_return, batch.trajectory_group
        rho = between_share(returns, group) if self.icc is None else self.icc
        centred = without_rounding(returns - _shrunk(returns, group, rho, without_own=True), np.abs(returns).max())
        outcome = (centred / (np.sqrt((centred**2).mean()) + EPSILON))[batch.trajectory]

        graph, first = RolloutGraph(batch), batch.step == 0
        starts = discounted_returns(batch, self.gamma)[first]
        mean = _shrunk(starts, batch.group[first], rho)[np.unique(batch.group[first], return_index=True)[1]]
        value = solve(graph, self.gamma, (1 - rho) / max(rho, EPSILON), mean).value
        raw = graph.pair_mean(gae(batch, graph.residuals(value, self.gamma), self.gamma, self.gae_lambda))
        step = standardise(raw, _WHOLE)
        distance = standardise_by_state(batch, graph_reward(batch, self.omega), "sample")

        advantage = step + self.outcome_weight * outcome + self.graph_weight * distance
        advantage = advantage - self.invalid_penalty * ~batch.valid
        terms = {"step": step, "step_raw": raw, "graph": distance, "outcome": outcome, "value": value[batch.state]}
        return Credit(advantage, terms=terms, metrics={"icc": rho}, graph=graph)


def _shrunk(
    x: Float[np.ndarray, " M"], group: np.ndarray, rho: float, without_own: bool = False
) -> Float[np.ndarray, " M"]:
    """Return the mean of each trajectory's group, shrunk to the mean of the batch; ``without_own`` leaves it out."""
    n = np.bincount(group)[group] - without_own
    mean = (np.bincount(group, weights=x)[group] - without_own * x) / np.maximum(n, 1)
    told = n * rho
    weight = np.divide(told, told + 1 - rho, out=np.zeros(len(x)), where=told > 0)
    return weight * mean + (1 - weight) * x.mean()
