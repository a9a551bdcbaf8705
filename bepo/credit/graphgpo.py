"""GraphGPO: credit for the distance to success, after a step, on the graph of a group's observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.returns import Std, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm

GraphReward = Literal["power", "power_plus_one", "difference", "reciprocal"]
Unreachable = Literal["far_plus_one", "zero"]


@register
@dataclass
class GraphGPO(OutcomeTerm):
    """A_i = step_weight A_G_i + outcome_weight A_E_i, where A_G compares rewards R^G within a state (Cheng et al.,
    2026).

    d(s) is the length of the shortest path to an observed success. The last observation of a failed or truncated
    trajectory is an ordinary state. Where paper, official code and the Gated-BEPO paper differ, a field offers each.
    """

    name: Literal["graphgpo"] = "graphgpo"
    omega: float = setting(0.1, above=0, at_most=1)
    """Distance discount: 0.1 on ALFWorld, 0.2 on WebShop, 0.8 on Sokoban (official scripts)."""
    graph_reward: GraphReward = "power"
    """R^G of a step from s to s': 10 w^d(s') (``power``, the official code), 10 w^(d(s') + 1) (the paper's Eq. 4),
    10 w^(d(s') - d(s) + 1) (``difference``, the code's ``normalize_distance``), or 1 / (1 + d(s')) (``reciprocal``, as
    the Gated-BEPO paper describes the method)."""
    unreachable: Unreachable = "far_plus_one"
    """R^G of a successor without a path to success: as for one step beyond the farthest state, or 0 (Gated-BEPO
    paper)."""
    std: Std = "sample"
    """Standard deviation to divide both terms by; ``none`` centres only."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the step term A_G."""
    outcome_weight: float = setting(1.0, at_least=0)
    """Weight of the episode term A_E."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score and from R^G of an invalid transition."""

    label: ClassVar[str] = "GraphGPO"
    colour: ClassVar[str] = "#56B4E9"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Cheng et al., 2026, GraphGPO, Eq. 4"
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state and successor keys",
        "step_credit": "Graph distance",
        "temporal": "No",
        "mixing": "Fixed",
    }

    def without_effect(self) -> dict[str, str]:
        return {"omega": "credit.graph_reward=reciprocal has no base"} if self.graph_reward == "reciprocal" else {}

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch, self.std)
        reward = graph_reward(batch, self.omega, self.graph_reward, self.unreachable)
        step = standardise_by_state(batch, reward - self.invalid_penalty * ~batch.valid, self.std)
        advantage = self.step_weight * step + self.outcome_weight * outcome
        return Credit(advantage, terms={"outcome": outcome, "step": step, "graph_reward": reward})


def graph_reward(
    batch: RolloutBatch, omega: float, kind: GraphReward = "power", unreachable: Unreachable = "far_plus_one"
) -> Float[np.ndarray, " N"]:
    """Return R^G of each transition; ``kind`` and ``unreachable`` are the fields of ``GraphGPO``."""
    distance = distances(batch)
    far = np.zeros(batch.n_groups)  # without any success, every distance is 1
    finite = np.isfinite(distance)
    np.maximum.at(far, batch.state_group[finite], distance[finite])
    whole = np.where(finite, distance, far[batch.state_group] + 1)
    ends = batch.terminal == Terminal.SUCCESS
    after = np.where(ends, 0.0, whole[batch.next_state])
    if kind == "reciprocal":
        reward = 1 / (1 + after)
    else:
        before = whole[batch.state] if kind == "difference" else 0.0
        reward = 10 * omega ** (after - before + (kind != "power"))
    return np.where(ends | finite[batch.next_state], reward, 0.0) if unreachable == "zero" else reward


def distances(batch: RolloutBatch) -> Float[np.ndarray, " S"]:
    """Return the fewest steps from each state to an observed success; inf without a path.

    The search is breadth-first, over all groups at once.
    """
    distance = np.full(batch.n_states, np.inf)
    ends = batch.terminal == Terminal.SUCCESS
    source, target = batch.state[~ends], batch.next_state[~ends]
    frontier = np.unique(batch.state[ends])
    level = 1
    while len(frontier):
        distance[frontier] = level
        open_edge = np.isinf(distance[source]) & (distance[target] == level)
        frontier = np.unique(source[open_edge])
        level += 1
    return distance
