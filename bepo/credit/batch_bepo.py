"""Batch-BEPO, with every part that the search tried as a switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve
from bepo.core.returns import between_share, discounted_returns, gae, standardise, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register
from bepo.credit.graphgpo import graph_reward

WHOLE = np.zeros(1, int)


class ShrunkGraph(RolloutGraph):
    """A rollout graph whose groups' mean returns are shrunk to the mean of the batch."""

    weight = 1.0

    def mean_return(self, gamma: float) -> np.ndarray:
        own = super().mean_return(gamma)
        starts = discounted_returns(self.batch, gamma)[self.batch.step == 0]
        return self.weight * own + (1 - self.weight) * starts.mean()


@register
@dataclass
class BatchBEPO(Estimator):
    """The candidates of the search."""

    name: Literal["batch_bepo"] = "batch_bepo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount."""
    gae_lambda: float = setting(0.8, at_least=0, at_most=1)
    """Decay."""
    step_floor: float = setting(1.0, at_least=0)
    """Floor."""
    graph_weight: float = setting(0.25, at_least=0)
    """Graph."""
    omega: float = setting(0.8, above=0, at_most=1)
    """Omega."""
    outcome_weight: float = setting(0.5, at_least=0)
    """Outcome."""
    baseline: Literal["icc", "group", "batch"] = "icc"
    """Baseline of the outcome term."""
    deviation: Literal["batch", "group"] = "batch"
    """What A_FP is centred and divided by."""
    outcome_deviation: Literal["batch", "group"] = "batch"
    """What the outcome term is divided by."""
    kappa: float = setting(-1.0)
    """Visits of shrinkage; -1: by the ICC."""
    toward: Literal["shrunk", "group", "batch"] = "shrunk"
    """What values shrink to."""
    guard: bool = True
    """Guard."""
    pool_actions: bool = True
    """Pool."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Penalty."""

    label: ClassVar[str] = "Batch-BEPO"
    colour: ClassVar[str] = "#118833"
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
        size = np.bincount(group)
        share = between_share(returns, group)
        graph = ShrunkGraph(batch)
        k = len(returns) / batch.n_groups
        graph.weight = {"shrunk": k * share / max(1 + (k - 1) * share, 1e-12), "group": 1.0, "batch": 0.0}[self.toward]
        kappa = self.kappa if self.kappa >= 0 else float(np.clip((1 - share) / max(share, 0.05), 0.1, 10))
        value = solve(graph, self.gamma, kappa).value
        raw = gae(batch, graph.residuals(value, self.gamma), self.gamma, self.gae_lambda)
        if self.pool_actions:
            raw = graph.pair_mean(raw)
        starts = WHOLE if self.deviation == "batch" else batch.group_start
        step = standardise(raw, starts, "sample", self.step_floor)
        distance = standardise_by_state(batch, graph_reward(batch, self.omega), "sample")
        if self.guard:
            stuck = revisits(batch) & ~batch.success[batch.trajectory]
            step, distance = (np.where(stuck & (term > 0), 0.0, term) for term in (step, distance))
        others = size[group] - 1
        total = np.bincount(group, weights=returns)[group] - returns
        mean = np.where(others > 0, total / np.maximum(others, 1), returns.mean())
        rho = {"icc": others * share / np.maximum(others * share + 1 - share, 1e-12), "group": 1.0, "batch": 0.0}[
            self.baseline
        ]
        centred = returns - rho * mean - (1 - rho) * returns.mean()
        spread = centred.std()
        if self.outcome_deviation == "group":
            own = np.bincount(group, weights=returns) / size
            spread = np.sqrt(np.bincount(group, weights=(returns - own[group]) ** 2) / np.maximum(size - 1, 1))[group]
            spread = np.where(spread > 0, spread, 1.0)
        outcome = (centred / (spread + 1e-6))[batch.trajectory]
        advantage = self.outcome_weight * outcome + step + self.graph_weight * distance
        return Credit(advantage - self.invalid_penalty * ~batch.valid, graph=graph)


def revisits(batch: RolloutBatch) -> np.ndarray:
    """Return whether a transition leads to a state that its episode has met."""
    seen: set[tuple[int, int]] = set()
    found = np.zeros(len(batch), bool)
    rows = zip(batch.trajectory.tolist(), batch.state.tolist(), batch.next_state.tolist())
    for i, (episode, state, after) in enumerate(rows):
        seen.add((episode, state))
        found[i] = after >= 0 and (episode, after) in seen
    return found
