"""The exact expected update of an estimator: all groups of all trajectories, weighted by their probability.

Only for tiny worlds: T trajectories and groups of K make T^K groups.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from jaxtyping import Float

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.lab.probe import Estimate, Probe, slopes
from bepo.lab.rollouts import LabRollouts, add_certainty, as_batch
from bepo.lab.worlds import Worlds

MOST_TRANSITIONS = 2_000_000
_Path = tuple[float, list[tuple[int, int, int, float]]]  # probability; state, action, successor, reward of each step


def trajectories(worlds: Worlds, policy: Float[np.ndarray, "1 S A"]) -> list[_Path]:
    """Return every trajectory of the one world, with its probability; slips are not enumerated.

    Raises ``UserError`` where they are too many.
    """
    if worlds.n_worlds != 1 or worlds.dials.slip or worlds.dials.reward_noise:
        raise UserError("exact bias: one world without slip and reward_noise")
    if _number(worlds, policy) * worlds.dials.horizon > MOST_TRANSITIONS:
        raise UserError(f"exact bias: {worlds.worlds[0].name} has too many trajectories to enumerate")
    n, done = worlds.n_states, list[_Path]()
    running: list[_Path] = [(1.0, [])]
    for _ in range(worlds.dials.horizon):
        grown: list[_Path] = []
        for probability, steps in running:
            state = steps[-1][2] if steps else int(worlds.start[0])
            for action in np.flatnonzero(policy[0, state]).tolist():
                there, reward = int(worlds.next[0, state, action]), float(worlds.reward[0, state, action])
                path = probability * float(policy[0, state, action]), [*steps, (state, action, there, reward)]
                (done if there >= n else grown).append(path)
        running = grown
    return done + running


def _number(worlds: Worlds, policy: Float[np.ndarray, "1 S A"]) -> float:
    """Return the number of trajectories that the policy can make; infinite beyond 1e308."""
    n, ended = worlds.n_states, 0.0
    at = np.zeros(n)  # trajectories that have reached each state
    at[worlds.start[0]] = 1.0
    for _ in range(worlds.dials.horizon):
        reached = np.bincount(worlds.next[0].ravel(), (at[:, None] * (policy[0] > 0)).ravel(), n + 2)
        at, ended = reached[:n], ended + reached[n:].sum()
    return ended + at.sum()


def every_group(worlds: Worlds, policy: Float[np.ndarray, "1 S A"], group_size: int) -> tuple[Probe, np.ndarray]:
    """Return all groups of ``group_size`` trajectories as one batch, and the probability of each group.

    Raises ``UserError`` where they are too many.
    """
    paths = trajectories(worlds, policy)
    longest = max(len(steps) for _, steps in paths)
    if len(paths) ** group_size * group_size * longest > MOST_TRANSITIONS:
        raise UserError(f"exact bias: {len(paths)} trajectories in groups of {group_size} are too many to enumerate")
    groups = list(product(range(len(paths)), repeat=group_size))
    chosen = [paths[i] for members in groups for i in members]
    length = np.array([len(steps) for _, steps in chosen])
    trajectory = np.repeat(np.arange(len(chosen)), length)
    step = np.concatenate([np.arange(n) for n in length])
    columns = np.array([row for _, steps in chosen for row in steps])
    state, action, following = columns[:, :3].T.astype(int)
    ends = np.select([following == worlds.n_states, following > worlds.n_states], [Terminal.SUCCESS, Terminal.FAILURE])
    last = np.append(trajectory[1:] != trajectory[:-1], True)
    terminal = np.where(last & (ends == 0), int(Terminal.TRUNCATION), ends)
    which = np.zeros(len(groups), int)
    batch = as_batch(
        worlds, which, trajectory // group_size, trajectory, step, state, following, terminal, columns[:, 3], action
    )
    add_certainty(batch, policy[0, state])
    probability = np.prod([[paths[i][0] for i in members] for members in groups], axis=1)
    only = np.zeros(1, int)
    return Probe(worlds, only, policy, LabRollouts(batch, state, following, action), which), probability


def expected_update(estimate: Estimate, every: Probe, probability: np.ndarray) -> Float[np.ndarray, "S A"]:
    """Return E[sum over a group's transitions of advantage x grad log pi(a | key)] / K, by the logits of each key."""
    worlds, batch = every.worlds, every.rollouts.batch
    key, n_trajectories = worlds.policy_key[0, every.rollouts.state], batch.n_trajectories / batch.n_groups
    weight = probability[batch.group] * estimate(every) / n_trajectories
    return np.stack(list(slopes(weight, every, key, key, worlds.n_states)), axis=1)


def bias(estimate: Estimate, every: Probe, probability: np.ndarray) -> tuple[float, float]:
    """Compare the expected update with the true gradient of success.

    The first number is the best scale, the second the relative distance that is left at this scale: 0 for an unbiased
    direction, infinite for one at right angles to the gradient, NaN if the expected update is 0. Raises ``UserError``
    where success does not depend on the policy.
    """
    update = expected_update(estimate, every, probability)
    true = every.gradient[0]
    square = float((true * true).sum())
    if square == 0:
        raise UserError("exact bias: the true gradient is 0; is lab.horizon long enough for a success?")
    scale = float((update * true).sum()) / square
    left = float(np.sqrt(((update - scale * true) ** 2).sum() / square))
    return scale, left / abs(scale) if scale else np.nan if left == 0 else np.inf
