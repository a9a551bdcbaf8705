"""Shrunk-BEPO: residuals of Bellman values that are shrunk towards the group's mean, and graph distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve
from bepo.core.returns import Std, gae, outcome_advantage, standardise, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register
from bepo.credit.graphgpo import graph_reward


@register
@dataclass
class ShrunkBEPO(Estimator):
    """A = A_FP / max(std A_FP, step_floor) + graph_weight A_G + outcome_weight A_E, a method of this project.

    A_FP accumulates residuals r + gamma V(s') - V(s), centred over the group. The values are shrunk:
    V(s) = (sum of r + gamma V(s') over the n(s) transitions from s + kappa m) / (n(s) + kappa), m the group's mean
    return. So a state with few visits is worth about as much as its group. A_G is GraphGPO's step term, A_E GRPO's
    outcome term.

    With ``kappa=0 step_floor=0 pool_actions=false graph_weight=0 outcome_weight=0`` it is Gated-BEPO's exact
    fixed-point term. The lab chose the defaults; paper/blocks.yaml says how.
    """

    name: Literal["shrunk_bepo"] = "shrunk_bepo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns, values and residuals."""
    kappa: float = setting(0.1, at_least=0)
    """Visits of every state that are worth the group's mean return."""
    gae_lambda: float = setting(0.8, at_least=0, at_most=1)
    """Decay of residuals along the trajectory, times ``gamma``; 0 takes each step's own residual."""
    pool_actions: bool = True
    """Whether transitions with one state and action share the mean of their accumulated residuals."""
    step_std: Std = "sample"
    """Standard deviation to divide A_FP by, over all transitions of the group; ``none`` centres only."""
    step_floor: float = setting(1.0, at_least=0)
    """Least deviation that A_FP is divided by, in units of the reward; a group whose steps differ little gets little
    credit. The environments of the paper pay 10 for success."""
    graph_weight: float = setting(0.25, at_least=0)
    """Weight of GraphGPO's step term A_G."""
    omega: float = setting(0.8, above=0, at_most=1)
    """Distance discount of A_G; the official scripts of GraphGPO take 0.1 on ALFWorld, 0.2 on WebShop, 0.8 on
    Sokoban."""
    outcome_weight: float = setting(0.5, at_least=0)
    """Weight of the outcome term A_E."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the advantage of an invalid transition."""

    label: ClassVar[str] = "Shrunk-BEPO"
    colour: ClassVar[str] = "#AA00EE"
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
    def solves(self) -> bool:
        return True

    def __call__(self, batch: RolloutBatch) -> Credit:
        graph = RolloutGraph(batch)
        value = solve(graph, self.gamma, self.kappa).value
        raw = gae(batch, graph.residuals(value, self.gamma), self.gamma, self.gae_lambda)
        if self.pool_actions:
            raw = graph.pair_mean(raw)
        step = standardise(raw, batch.group_start, self.step_std, self.step_floor)
        distance = standardise_by_state(batch, graph_reward(batch, self.omega), "sample")
        outcome = outcome_advantage(batch)
        advantage = step + self.graph_weight * distance + self.outcome_weight * outcome
        advantage = advantage - self.invalid_penalty * ~batch.valid
        terms = {"step": step, "step_raw": raw, "graph": distance, "outcome": outcome, "value": value[batch.state]}
        return Credit(advantage, terms=terms, graph=graph)
