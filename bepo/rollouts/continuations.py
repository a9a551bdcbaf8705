"""Continuations: further episodes from every state of a batch, which estimate the state's value without a critic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.seeds import derive_seed
from bepo.envs import Environment, Task
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import EpisodeBatch, Policy, Sample, Sampling, play

COLUMN = "continuation"
"""The column of the batch: the mean return from the state, without discount."""
_AT_ONCE = 1024  # episodes
_STREAM = 0x76696E65  # random stream of continuations


def collect_continued(
    env: Environment,
    agent: Agent,
    policy: Policy,
    tasks: Sequence[Task],
    group_size: int,
    sampling: Sampling,
    seed: int,
    n: int,
    needs: Iterable[str] = (),
) -> RolloutBatch:
    """Return the batch of ``collect``, with the mean return of ``n`` continuations from every state that was acted in.

    A continuation starts the task again, takes the actions that led to the state, and goes on with the policy. For T
    transitions these are n T further episodes. Raises ``UserError`` if an environment does not repeat itself.
    """
    places = [(task, g, k) for g, task in enumerate(tasks) for k in range(group_size)]
    with EpisodeBatch(env, agent, places, needs) as episodes:
        play(episodes, policy, sampling, seed, env.horizon)
    states = [(i, t) for i, rows in enumerate(episodes.trajectories) for t in range(len(rows)) for _ in range(n)]
    for chunk, first in enumerate(range(0, len(states), _AT_ONCE)):
        of_chunk = states[first : first + _AT_ONCE]
        given: list[Sequence[Sample]] = [episodes.samples[i][:t] for i, t in of_chunk]
        with EpisodeBatch(env, agent, [(places[i][0], i, t) for i, t in of_chunk]) as further:
            play(further, policy, sampling, derive_seed(seed, _STREAM, chunk), env.horizon, given)
        for (i, t), rows in zip(of_chunk, further.trajectories):
            row = episodes.trajectories[i][t]
            if len(rows) <= t or rows[t]["obs"] != row["obs"]:
                raise UserError(f"env={env.name}: the same actions led to another state; continuations need a reset")
            row[COLUMN] = row.get(COLUMN, 0.0) + sum(later["r"] for later in rows[t:]) / n
    return RolloutBatch.from_rows(episodes.rows)
