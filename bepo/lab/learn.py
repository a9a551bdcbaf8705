"""Learning curves of log-linear policies: many seeds at once, success by exact evaluation.

Every update draws tasks from a pool of worlds, plays groups, asks the estimator for advantages and makes Adam steps on
PPO's clipped surrogate, as a language model's training does. Sizes: P seeds, n features, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from bepo.core.errors import UserError
from bepo.core.settings import Settings, setting
from bepo.lab.policies import log_linear, softmax
from bepo.lab.probe import Estimate, Probe
from bepo.lab.rollouts import LabRollouts, collect
from bepo.lab.truth import success
from bepo.lab.worlds import Worlds

Weights = Float[np.ndarray, "P n A"]
_TEST = 64  # worlds that no update draws, at most a quarter of the pool


@dataclass
class Learning(Settings):
    """What a learning curve is made of; the defaults are those of the laptop tier where there is a counterpart."""

    seeds: int = setting(20, at_least=1, at_most=1000)
    """Policies that learn side by side."""
    tasks: int = setting(16, at_least=1)
    """Worlds of one update."""
    group_size: int = setting(8, at_least=1)
    """K, trajectories of each world."""
    updates: int = setting(60, at_least=1)
    learning_rate: float = setting(0.02, above=0)
    minibatches: int = setting(4, at_least=1)
    clip_eps: float = setting(0.2, at_least=0)
    """Importance ratios are clipped to the interval from 1 - clip_eps to 1 + clip_eps."""
    seed: int = setting(0, at_least=0)

    group = "lab"


@dataclass(frozen=True)
class Curve:
    """What P seeds learned: success in training by update, and exact success on the test worlds before and after."""

    training: Float[np.ndarray, "updates P"]
    before: float
    final: Float[np.ndarray, " P"]


def test_worlds(worlds: Worlds) -> Int[np.ndarray, " n"]:
    """Return the worlds that success is measured on.

    Training draws the others if worlds share features. Else nothing carries over to them, and training draws all.
    Raises ``UserError`` if there are too few.
    """
    if worlds.share_features and worlds.n_worlds < 4:
        raise UserError(f"lab.worlds={worlds.n_worlds}: learning tests on a quarter of them; choices: 4 or more")
    return np.arange(min(_TEST, worlds.n_worlds // 4 if worlds.share_features else worlds.n_worlds))


def rates(worlds: Worlds, weights: Weights) -> Float[np.ndarray, " P"]:
    """Return the exact success of each weight table, averaged over the test worlds."""
    tests, seeds = test_worlds(worlds), len(weights)
    which, owner = np.tile(tests, seeds), np.repeat(np.arange(seeds), len(tests))
    return success(worlds, which, log_linear(worlds, which, weights, owner)).reshape(seeds, -1).mean(1)


def warm_start(worlds: Worlds, rate: float, seed: int = 0, learning_rate: float = 0.3) -> Weights:
    """Imitate the expert's ways until the success on the test worlds reaches ``rate``; returns one weight table.

    Stops after 2,000 steps, whatever was reached.
    """
    rng, weights = np.random.default_rng(seed), np.zeros((1, worlds.n_features, worlds.n_actions))
    for _ in range(2000):
        if rates(worlds, weights)[0] >= rate:
            break
        world, state, action = _expert_ways(worlds, rng.integers(worlds.n_worlds, size=8))
        features = worlds.features[world, state]
        policy = log_linear(worlds, world, weights, np.zeros(len(world), int))[np.arange(len(world)), state]
        slope = (np.eye(worlds.n_actions)[action] - policy) / len(action)
        np.add.at(weights[0], features, learning_rate * slope[:, None, :])
    return weights


def _expert_ways(worlds: Worlds, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return worlds, states and actions on shortest ways from the starts."""
    here, rows = worlds.start[which].copy(), list[tuple[np.ndarray, ...]]()
    for _ in range(worlds.dials.horizon):
        live = here < worlds.n_states
        if not live.any():
            break
        world, state = which[live], here[live]
        ahead = np.nan_to_num(worlds.distance[world[:, None], worlds.next[world, state]], nan=np.inf)
        action = ahead.argmin(1)
        rows.append((world, state, action))
        here[live] = worlds.next[world, state, action]
    world, state, action = (np.concatenate(column) for column in zip(*rows))
    return world, state, action


def learn(
    worlds: Worlds,
    start: Weights,
    estimate: Estimate,
    how: Learning,
    report: Callable[[], object] = lambda: None,
) -> Curve:
    """Train ``how.seeds`` policies from one start and return their curves; ``report`` is called after every update."""
    rng = np.random.default_rng([how.seed, 5])
    weights = np.repeat(start, how.seeds, 0)
    adam, training = _Adam(weights.shape, how.learning_rate), []
    owner = np.repeat(np.arange(how.seeds), how.tasks)
    for which in _tasks(worlds, how):
        policy = log_linear(worlds, which, weights, owner)
        rollouts = collect(worlds, which, policy, how.group_size, rng)
        training.append(rollouts.won.reshape(how.seeds, -1).mean(1))
        advantage = estimate(Probe(worlds, which, policy, rollouts, np.arange(len(which)), owner))
        sample = _Sample(worlds, which, owner, policy, rollouts, advantage)
        for part in np.array_split(rng.permutation(len(advantage)), how.minibatches):
            weights += adam.step(sample.slope(weights, part, how.clip_eps))
        report()
    return Curve(np.array(training), float(rates(worlds, start)[0]), rates(worlds, weights))


def _tasks(worlds: Worlds, how: Learning) -> Iterator[Int[np.ndarray, " G"]]:
    """Yield the worlds of each update, by seed: slices of a permutation of each seed's own."""
    pool = np.arange(len(test_worlds(worlds)) if worlds.share_features else 0, worlds.n_worlds)
    orders = [np.random.default_rng([how.seed, s]).permutation(pool) for s in range(how.seeds)]
    for update in range(how.updates):
        place = (update * how.tasks + np.arange(how.tasks)) % len(pool)
        yield np.concatenate([order[place] for order in orders])


class _Sample:
    """The transitions of one update, as its minibatches need them."""

    def __init__(
        self,
        worlds: Worlds,
        which: Int[np.ndarray, " G"],
        owner: Int[np.ndarray, " G"],
        policy: Float[np.ndarray, "G S A"],
        rollouts: LabRollouts,
        advantage: Float[np.ndarray, " N"],
    ) -> None:
        group, state = rollouts.batch.group, rollouts.state
        self.seed, self.action, self.advantage = owner[group], rollouts.action, advantage
        self.features = worlds.features[which[group], state]
        self.listed = worlds.listed[which[group], state]
        self.old = policy[group, state, rollouts.action]

    def slope(self, weights: Weights, part: Int[np.ndarray, " m"], clip_eps: float) -> Weights:
        """Return the gradient of the clipped surrogate over some transitions, averaged within each seed."""
        seed, action, advantage = self.seed[part], self.action[part], self.advantage[part]
        logits = weights[seed[:, None], self.features[part]].sum(1)
        policy = softmax(np.where(self.listed[part], logits, -np.inf))
        ratio = policy[np.arange(len(part)), action] / self.old[part]
        clipped = (advantage > 0) & (ratio > 1 + clip_eps) | (advantage < 0) & (ratio < 1 - clip_eps)
        count = np.bincount(seed, minlength=len(weights))
        push = np.where(clipped, 0.0, advantage * ratio) / count[seed]
        n_seeds, n, a = weights.shape
        place = (seed[:, None] * n + self.features[part]).ravel()
        columns = []
        for choice in range(a):
            score = np.repeat(push * ((action == choice) - policy[:, choice]), self.features.shape[1])
            columns.append(np.bincount(place, weights=score, minlength=n_seeds * n))
        return np.stack(columns, axis=1).reshape(weights.shape)


class _Adam:
    """Adam that ascends (Kingma & Ba, 2015)."""

    def __init__(self, shape: tuple[int, ...], learning_rate: float) -> None:
        self._rate, self._steps = learning_rate, 0
        self._mean, self._square = np.zeros(shape), np.zeros(shape)

    def step(self, slope: Weights) -> Weights:
        """Return the change of the weights."""
        self._steps += 1
        self._mean = 0.9 * self._mean + 0.1 * slope
        self._square = 0.999 * self._square + 0.001 * slope * slope
        mean, square = self._mean / (1 - 0.9**self._steps), self._square / (1 - 0.999**self._steps)
        return self._rate * mean / (np.sqrt(square) + 1e-6)
