"""The expert's distance to success in recorded rollouts: recorded actions are played again in the environment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.errors import UserError
from bepo.envs import Environment, Episodes, Task, started


def with_expert_steps(batch: RolloutBatch, env: Environment, tasks: Iterable[Task]) -> RolloutBatch:
    """Return the batch with ``expert_steps`` and ``next_expert_steps``.

    ``tasks`` are searched for those of the batch. Raises ``UserError`` if the environment cannot count the expert's
    steps, if a task is not among them, or if a recorded state does not come back.
    """
    if not env.counts_expert_steps:
        raise UserError(f"truth=true: env={env.name} cannot count the steps that its expert needs")
    by_id = _tasks(batch, tasks)
    with started(env, [by_id[batch.task[group]] for group in batch.trajectory_group]) as running:
        return _played_again(batch, env, running)


def _played_again(batch: RolloutBatch, env: Environment, running: Episodes) -> RolloutBatch:
    before, after = np.full(len(batch), np.nan), np.full(len(batch), np.nan)
    actions, here = batch.actions, [running.expert_steps(k) for k in range(batch.n_trajectories)]
    for step in range(int(batch.step.max()) + 1):
        acting = np.flatnonzero(batch.step == step)
        steps = running.step({int(batch.trajectory[i]): actions[i] for i in acting})
        for i in acting:
            k = int(batch.trajectory[i])
            if steps[k].observation.key != batch.state_key[batch.next_state[i]]:
                raise UserError(f"truth=true: transition {i} leads elsewhere when env={env.name} plays it again")
            before[i], end = here[k], steps[k].terminal
            here[k] = 0.0 if end == Terminal.SUCCESS else np.nan if end else running.expert_steps(k)
            after[i] = here[k]
    return batch.with_columns(expert_steps=before, next_expert_steps=after)


def _tasks(batch: RolloutBatch, tasks: Iterable[Task]) -> dict[str, Task]:
    wanted, by_id = set(batch.task), dict[str, Task]()
    for task in tasks:
        if task.id in wanted:
            by_id[task.id] = task
            if len(by_id) == len(wanted):
                return by_id
    missing = sorted(wanted - by_id.keys())
    raise UserError(f"truth=true: {len(missing)} tasks are not among the run's training tasks, such as {missing[0]}")
