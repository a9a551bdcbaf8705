"""How close estimated advantages are to the true ones, and what gradient they give.

An estimate is compared with the true advantage of success, A = Q - V, at (hidden state, steps made). Sizes: N
transitions of G groups; P policies, each in one of B worlds.
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

MEASURES = {
    "error": "share of the true advantage's square that is missed, after the best scale (0 perfect, 1 no signal)",
    "raw_error": "the same without a scale",
    "bias2": "squared bias of the mean over groups at the best scale, as a share of the true square",
    "variance": "variance over groups at the best scale, as a share of the true square",
    "sign_error": "share of transitions of the wrong sign where |A| > 0.05; an estimate of 0 counts half",
    "wrong_mass": "share of sum |estimate| that has the wrong sign where |A| > 0.05",
    "rank": "Kendall's tau of two actions in one state of a group",
    "gradient_cosine": "mean cosine between a group's gradient and the true one",
    "gradient_efficiency": "E<g, true> / (|true| sqrt(E|g|^2)): how much of a group's gradient is progress",
    "gradient_norm": "sqrt(E|g|^2) / |true|",
    "zero": "share of transitions with an advantage of exactly 0",
}
"""What is measured of an estimator, for each world."""
_CLEAR = 0.05  # a true advantage of which the sign matters
_TIE = 1e-9


@dataclass(frozen=True)
class Probe:
    """Rollouts of P known policies, each in one world. The truth is computed when it is asked for."""

    worlds: Worlds
    which: Int[np.ndarray, " P"]  # the world of each policy
    policy: Float[np.ndarray, "P S A"]
    rollouts: LabRollouts
    owner: Int[np.ndarray, " G"]  # the policy of each group

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
        return _ratio(np.bincount(self.of, weights=weight * x, minlength=n), total)

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
        batch, rng, found = self.rollouts.batch, np.random.default_rng(0), []
        order = np.lexsort((rng.random(len(batch)), batch.state))
        for lag in (1, 2, 3, 5, 8):
            a, b = order[lag:], order[:-lag]
            clear = np.abs(self.advantage[a] - self.advantage[b]) > _CLEAR / 5
            same = (batch.state[a] == batch.state[b]) & (self.rollouts.action[a] != self.rollouts.action[b])
            found.append((a[same & clear], b[same & clear]))
        first, second = (np.concatenate(part) for part in zip(*found))
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
    """Return a registered estimator as an estimate."""
    return lambda probe: estimator.credit_of(probe.rollouts.batch).advantage


def fidelity(estimate: Float[np.ndarray, " N"], probe: Probe) -> dict[str, Float[np.ndarray, " P"]]:
    """Return every measure of ``MEASURES`` for each policy."""
    true = probe.advantage
    square, own = probe.mean(true * true), probe.mean(estimate * estimate)
    product = probe.mean(estimate * true)
    scale = _ratio(product, own)
    clear = (np.abs(true) > _CLEAR).astype(float)
    wrong = np.where(estimate == 0, 0.5, np.sign(estimate) != np.sign(true))
    bias2, variance = _bias_and_variance(estimate, probe, scale)
    return {
        "error": 1 - _ratio(product * product, own * square),
        "raw_error": _ratio(probe.mean((estimate - true) ** 2), square),
        "bias2": bias2,
        "variance": variance,
        "sign_error": probe.mean(wrong, clear),
        "wrong_mass": probe.mean((np.sign(estimate) != np.sign(true)).astype(float), clear * np.abs(estimate)),
        "rank": _rank(estimate, probe),
        **_gradients(estimate, probe),
        "zero": probe.mean((estimate == 0).astype(float)),
    }


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a, dtype=float), where=b > 0)


def _rank(estimate: np.ndarray, probe: Probe) -> np.ndarray:
    first, second = probe.pairs
    n, of = len(probe.which), probe.of[first]
    difference = estimate[first] - estimate[second]
    order = np.where(np.abs(difference) < _TIE, 0.0, np.sign(difference))
    agree = order * np.sign(probe.advantage[first] - probe.advantage[second])
    counts = np.bincount(of, minlength=n).astype(float)
    return _ratio(np.bincount(of, weights=agree, minlength=n), counts)


def _bias_and_variance(estimate: np.ndarray, probe: Probe, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared bias and variance of scaled estimates over a policy's transitions, as shares of the true square.

    What a group has in a cell is one observation. The variance is that between groups; what it adds to the square of a
    cell's mean is taken off the bias. Cells with fewer than five groups tell too little and are left out.
    """
    cell, pair = probe.cells
    n_cells = int(cell.max()) + 1
    count = np.bincount(pair)
    observed = np.bincount(pair, weights=estimate * scale[probe.of]) / count
    cell_of = np.zeros(len(count), int)
    cell_of[pair] = cell
    n = np.bincount(cell_of, minlength=n_cells)
    mean = np.bincount(cell_of, weights=observed, minlength=n_cells) / n
    spread = np.bincount(cell_of, weights=(observed - mean[cell_of]) ** 2, minlength=n_cells)
    variance = spread / np.maximum(n - 1, 1)
    true = np.zeros(n_cells)
    true[cell] = probe.advantage
    bias2 = (mean - true) ** 2 - variance / n
    enough = (n >= 5)[cell].astype(float)
    square = probe.mean(probe.advantage**2, enough)
    return _ratio(probe.mean(bias2[cell], enough), square), _ratio(probe.mean(variance[cell], enough), square)


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


def _gradients(estimate: np.ndarray, probe: Probe) -> dict[str, np.ndarray]:
    """Return what the policy gradient of each group has in common with the true one, by keys."""
    worlds, rollouts, batch = probe.worlds, probe.rollouts, probe.rollouts.batch
    key = worlds.policy_key[probe.world, rollouts.state]
    visited, place = np.unique(batch.group.astype(np.int64) * worlds.n_states + key, return_inverse=True)
    group, key_of = visited // worlds.n_states, visited % worlds.n_states
    true = probe.gradient.reshape(len(probe.which), -1)
    dot, square = np.zeros(batch.n_groups), np.zeros(batch.n_groups)
    for action, own in enumerate(slopes(estimate, probe, key, place, len(visited))):
        goal = probe.gradient[probe.owner[group], key_of, action]
        dot += np.bincount(group, weights=own * goal, minlength=batch.n_groups)
        square += np.bincount(group, weights=own * own, minlength=batch.n_groups)
    length = np.sqrt((true * true).sum(1))

    def mean(x: np.ndarray) -> np.ndarray:
        groups = np.bincount(probe.owner, minlength=len(probe.which))
        return np.bincount(probe.owner, weights=x, minlength=len(probe.which)) / groups

    norm = np.sqrt(mean(square))
    return {
        "gradient_cosine": mean(_ratio(dot, np.sqrt(square) * length[probe.owner])),
        "gradient_efficiency": _ratio(mean(dot), length * norm),
        "gradient_norm": _ratio(norm, length),
    }
