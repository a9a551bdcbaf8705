"""Rollouts of known policies, with the truth about each transition.

Sizes: N transitions of G groups; P policies, each in one of B worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from bepo.credit import Estimator
from bepo.lab.rollouts import LabRollouts, collect
from bepo.lab.truth import Values, gradient, values
from bepo.lab.worlds import Worlds

CLEAR = 0.05
"""A true advantage of which the sign matters."""


@dataclass(frozen=True)
class Probe:
    """Rollouts of P known policies, each in one world. The truth is computed when it is asked for."""

    worlds: Worlds
    which: Int[np.ndarray, " P"]  # the world of each policy
    policy: Float[np.ndarray, "P S A"]
    rollouts: LabRollouts
    owner: Int[np.ndarray, " G"]  # the policy of each group
    learner: Int[np.ndarray, " G"] | None = None  # whose update each group belongs to; None: all are of one update

    @cached_property
    def of(self) -> Int[np.ndarray, " N"]:
        """The policy of each transition."""
        return self.owner[self.rollouts.batch.group]

    @property
    def world(self) -> Int[np.ndarray, " N"]:
        """The world of each transition."""
        return self.which[self.of]

    @cached_property
    def true(self) -> Values:
        """The values of the policies, of success."""
        return values(self.worlds, self.which, self.policy)

    @cached_property
    def advantage(self) -> Float[np.ndarray, " N"]:
        """The true advantage Q - V of each transition."""
        return self.true.advantage[self.rollouts.batch.step, self.of, self.rollouts.state, self.rollouts.action]

    @property
    def value(self) -> Float[np.ndarray, " N"]:
        """The true value of each transition's state."""
        return self.true.value[self.rollouts.batch.step, self.of, self.rollouts.state]

    @property
    def next_value(self) -> Float[np.ndarray, " N"]:
        """The true value of each successor: 1 after success, 0 after failure and at the time limit."""
        following = self.rollouts.following
        inside = self.true.value[self.rollouts.batch.step + 1, self.of, following]
        return np.where(following == self.worlds.n_states, 1.0, inside)

    @cached_property
    def gradient(self) -> Float[np.ndarray, "P S A"]:
        """The true gradient of each policy's success by the logits of its keys."""
        return gradient(self.worlds, self.which, self.policy)

    def mean(self, x: Float[np.ndarray, " N"], weight: Float[np.ndarray, " N"] | None = None) -> np.ndarray:
        """Return the mean of ``x`` over the transitions of each policy, (P,); 0 where all weights are 0."""
        weight = np.ones_like(x) if weight is None else weight
        n = len(self.which)
        total = np.bincount(self.of, weights=weight, minlength=n)
        return ratio(np.bincount(self.of, weights=weight * x, minlength=n), total)

    @cached_property
    def cells(self) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        """The cell of each transition (policy, steps made, hidden state, action), and its pair of cell and group."""
        batch, rollouts = self.rollouts.batch, self.rollouts
        code = (self.of * self.worlds.dials.horizon + batch.step) * self.worlds.n_states + rollouts.state
        cell = np.unique(code * self.worlds.n_actions + rollouts.action, return_inverse=True)[1]
        return cell, np.unique(cell.astype(np.int64) * batch.n_groups + batch.group, return_inverse=True)[1]

    @cached_property
    def pairs(self) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"]]:
        """Pairs of transitions of one state of a group with different actions and clearly different advantages."""
        batch, rng, kept = self.rollouts.batch, np.random.default_rng(0), []
        order = np.lexsort((rng.random(len(batch)), batch.state))
        for lag in (1, 2, 3, 5, 8):
            a, b = order[lag:], order[:-lag]
            clear = np.abs(self.advantage[a] - self.advantage[b]) > CLEAR / 5
            same = (batch.state[a] == batch.state[b]) & (self.rollouts.action[a] != self.rollouts.action[b])
            kept.append((a[same & clear], b[same & clear]))
        first, second = (np.concatenate(part) for part in zip(*kept))
        return first, second


Estimate = Callable[[Probe], Float[np.ndarray, " N"]]


def probe(
    worlds: Worlds, policy: Float[np.ndarray, "B S A"], group_size: int = 8, groups: int = 200, seed: int = 0
) -> Probe:
    """Play ``groups`` groups of each world's policy, and look up the truth."""
    every = np.arange(worlds.n_worlds)
    owner = np.tile(every, groups)
    rollouts = collect(worlds, owner, policy[owner], group_size, np.random.default_rng(seed))
    return Probe(worlds, every, policy, rollouts, owner)


def of_estimator(estimator: Estimator) -> Estimate:
    """Return a registered estimator as an estimate. One that mixes groups sees the groups of one learner at a time."""

    def estimate(probe: Probe) -> Float[np.ndarray, " N"]:
        batch = probe.rollouts.batch
        if probe.learner is None or not estimator.mixes_groups:
            return estimator.credit_of(batch).advantage
        advantage = np.empty(len(batch))
        for learner in np.unique(probe.learner):
            of_learner = probe.learner == learner
            advantage[of_learner[batch.group]] = estimator.credit_of(batch.of_groups(of_learner)).advantage
        return advantage

    return estimate


def slopes(
    weight: Float[np.ndarray, " N"],
    probe: Probe,
    key: Int[np.ndarray, " N"],
    place: Int[np.ndarray, " N"],
    size: int,
) -> Iterator[Float[np.ndarray, " size"]]:
    """Yield for each action the sums of weight x d log pi(chosen | key) / d z(key, action), by ``place``."""
    policy = probe.policy[probe.of, key]
    for action in range(probe.worlds.n_actions):
        score = (probe.rollouts.action == action) - policy[:, action]
        yield np.bincount(place, weights=weight * score, minlength=size)


def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a, dtype=float), where=b > 0)
