"""Groups of episodes of known policies as one ``RolloutBatch``, with the hidden state of each transition.

Sizes: G groups of K trajectories, N transitions in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch, Terminal
from bepo.lab.worlds import Worlds


@dataclass(frozen=True)
class LabRollouts:
    """A batch, and the hidden truth of its transitions."""

    batch: RolloutBatch
    state: Int[np.ndarray, " N"]  # hidden state
    following: Int[np.ndarray, " N"]  # hidden successor: S success, S + 1 failure
    action: Int[np.ndarray, " N"]  # as chosen by the policy, before a slip

    @property
    def won(self) -> Float[np.ndarray, " M"]:
        """1 for each successful trajectory."""
        return self.batch.success.astype(float)


def collect(
    worlds: Worlds,
    which: Int[np.ndarray, " G"],
    policy: Float[np.ndarray, "G S A"],
    group_size: int,
    rng: np.random.Generator,
) -> LabRollouts:
    """Play ``group_size`` episodes of each policy in its world."""
    horizon, n = worlds.dials.horizon, worlds.n_states
    group = np.repeat(np.arange(len(which)), group_size)
    world, shape = which[group], (horizon, len(group))
    states, actions, successors, ends = (np.zeros(shape, np.int64) for _ in range(4))
    rewards, played = np.zeros(shape), np.zeros(shape, bool)
    uniform, here = rng.random(shape), worlds.start[world].copy()
    slips, alive = rng.random(shape) < worlds.dials.slip, np.arange(len(group))
    for t in range(horizon):
        if not len(alive):
            break
        at, g, w = here[alive], group[alive], world[alive]
        cumulative = policy[g, at].cumsum(-1)
        chosen = (uniform[t, alive, None] > cumulative[:, :-1]).sum(1)
        done = np.where(slips[t, alive], rng.integers(worlds.n_actions, size=len(alive)), chosen)
        there = worlds.next[w, at, done]
        end = np.select(
            [there == n, there == n + 1, np.full(len(alive), t == horizon - 1)],
            [Terminal.SUCCESS, Terminal.FAILURE, Terminal.TRUNCATION],
            Terminal.NONE,
        )
        states[t, alive], actions[t, alive], successors[t, alive], ends[t, alive] = at, chosen, there, end
        rewards[t, alive], played[t, alive] = worlds.reward[w, at, done], True
        here[alive], alive = np.minimum(there, n - 1), alive[end == Terminal.NONE]
    if worlds.dials.reward_noise:
        rewards += worlds.dials.reward_noise * rng.standard_normal(shape)
    kept = played.T.ravel()
    columns = (array.T.ravel()[kept] for array in (states, actions, successors, ends, rewards))
    state, action, following, terminal, reward = columns
    trajectory = np.repeat(np.arange(len(group)), horizon)[kept]
    step = np.tile(np.arange(horizon), len(group))[kept]
    batch = as_batch(worlds, which, group[trajectory], trajectory, step, state, following, terminal, reward, action)
    add_certainty(batch, policy[group[trajectory], state.astype(np.int64)])
    return LabRollouts(batch, state, following, action)


def add_certainty(batch: RolloutBatch, chances: Float[np.ndarray, "N A"]) -> None:
    """Fill in the entropy and the energy of each transition from the policy's probabilities in its state."""
    chosen = chances[np.arange(len(batch)), batch.action]
    batch.extras["energy"] = 1 - 2 * chosen + (chances**2).sum(-1)
    batch.extras["entropy"] = -(chances * np.log(np.maximum(chances, np.finfo(float).tiny))).sum(-1)


def as_batch(
    worlds: Worlds,
    which: Int[np.ndarray, " G"],
    group: Int[np.ndarray, " N"],
    trajectory: Int[np.ndarray, " N"],
    step: Int[np.ndarray, " N"],
    state: Int[np.ndarray, " N"],
    following: Int[np.ndarray, " N"],
    terminal: Int[np.ndarray, " N"],
    reward: Float[np.ndarray, " N"],
    action: Int[np.ndarray, " N"],
) -> RolloutBatch:
    """Return the transitions as estimators see them: states are keys, each group has states of its own."""
    n, world = worlds.n_states, which[group]
    inside = np.minimum(following, n - 1)
    keys = [worlds.key[world, state], np.where(following < n, worlds.key[world, inside], following)]
    code = np.concatenate([group * (n + 2) + key for key in keys])
    distinct, ids = np.unique(code, return_inverse=True)
    success = np.bincount(trajectory, weights=terminal == Terminal.SUCCESS)
    return RolloutBatch(
        task=[str(g) for g in range(len(which))],
        group=group.astype(np.int32),
        trajectory=trajectory.astype(np.int32),
        step=step.astype(np.int32),
        state=ids[: len(group)].astype(np.int32),
        next_state=ids[len(group) :].astype(np.int32),
        terminal=terminal.astype(np.int8),
        reward=reward,
        valid=np.ones(len(group), bool),
        task_score=success,
        state_group=(distinct // (n + 2)).astype(np.int32),
        state_key=[f"s{c % (n + 2)}" for c in distinct],  # a word: TF-IDF has none of one character
        row=np.arange(len(group)),
        action=action.astype(np.int32),
        action_key=[str(a) for a in range(worlds.n_actions)],
        extras={
            "expert_steps": worlds.distance[world, state],
            "next_expert_steps": worlds.distance[world, following],
        },
    )
