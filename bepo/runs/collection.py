"""The rollouts of an update: which tasks are played, which groups it trains on, and what a run keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from bepo.core.batch import RolloutBatch
from bepo.core.seeds import derive_seed
from bepo.envs import Task
from bepo.rollouts.task_sets import TaskSet
from bepo.runs.config import Config
from bepo.store.files import write_atomically
from bepo.store.run_files import ROLLOUTS
from bepo.training.backends import Engine, Rollouts

_TASK_STREAM = 0x7461736B  # random stream of the order of tasks
_EXTRA_STREAM = 0x65787472  # random stream of the further batches of dynamic sampling

MOST_TOKENS = 1_000_000
"""Most tokens of a rollout batch that is kept by default; compressed, a few megabytes."""


def collect(config: Config, engine: Engine, train: TaskSet, update: int) -> tuple[Rollouts, RolloutBatch]:
    """Return the rollouts that an update trains on, and all rollouts that were sampled for it.

    Dynamic sampling (``rollout.mixed_groups``) trains only on groups with successes and failures, as DAPO and SAMPO do.
    """
    rollout, needs = config.rollout, config.credit.needs

    def collect_batch(number: int) -> Rollouts:
        seeds = [config.seed, derive_seed(config.seed, update)]
        of_tasks, of_episodes = [derive_seed(s, _EXTRA_STREAM, number) for s in seeds] if number else seeds
        tasks = draw_tasks(train, rollout.tasks_per_update, of_tasks, update)
        return engine.collect(tasks, rollout.trajectories_per_task, rollout.sampling, of_episodes, needs)

    if not rollout.mixed_groups:
        rollouts = collect_batch(0)
        return rollouts, rollouts.batch
    rollouts, sampled = collect_mixed(engine, collect_batch, rollout.tasks, rollout.max_batches)
    return rollouts, RolloutBatch.concat(sampled)


def draw_tasks(train: TaskSet, n: int, seed: int, update: int) -> list[Task]:
    """Return the ``n`` tasks of an update: the next slice of seeded permutations of the set, one per epoch."""
    first = (update - 1) * n
    epochs = range(first // len(train), (first + n - 1) // len(train) + 1)
    orders = [np.random.default_rng(derive_seed(seed, _TASK_STREAM, e)).permutation(len(train)) for e in epochs]
    start = first - epochs[0] * len(train)
    return [train.tasks[i] for i in np.concatenate(orders)[start : start + n]]


def mixed(batch: RolloutBatch) -> Bool[np.ndarray, " G"]:
    """Return the mask of the groups with at least one success and one failure.

    Successes are counted. Scores would not do: a penalty for one invalid action makes the scores of a failed group
    differ. Nor would advantages: rounding makes those of equal scores differ from 0.
    """
    size = np.bincount(batch.trajectory_group, minlength=batch.n_groups)
    successes = np.bincount(batch.trajectory_group[batch.success], minlength=batch.n_groups)
    return (successes > 0) & (successes < size)


def collect_mixed(
    engine: Engine, collect: Callable[[int], Rollouts], n_groups: int, max_batches: int
) -> tuple[Rollouts, list[RolloutBatch]]:
    """Return the first ``n_groups`` mixed groups of the batches ``collect(0)``, ``collect(1)``, ... and these batches.

    After ``max_batches`` batches the update goes on with the mixed groups found so far; without any, with the whole
    last batch. DAPO stops the run there.
    """
    parts: list[Rollouts] = []
    kept: list[Bool[np.ndarray, " G"]] = []
    n_mixed = 0
    while n_mixed < n_groups and len(parts) < max_batches:
        parts.append(collect(len(parts)))
        is_mixed = mixed(parts[-1].batch)
        kept.append(is_mixed & (np.cumsum(is_mixed) <= n_groups - n_mixed))
        n_mixed += int(kept[-1].sum())
    if not n_mixed:
        kept[-1][:] = True
    return engine.join(parts, kept), [part.batch for part in parts]


def keep_rollouts(run: Path, batch: RolloutBatch, update: int, updates: int, every: int) -> None:
    """Write the batch of the first, the middle and the last update, and of every ``every``-th one (0: no others).

    A batch that ``every`` asks for is written whole. Others are cut to the first groups with ``MOST_TOKENS`` in all.
    """
    asked = every > 0 and update % every == 0
    if not asked and update not in (1, (updates + 1) // 2, updates):
        return
    (run / ROLLOUTS).mkdir(exist_ok=True)
    kept = batch if asked else bounded(batch, MOST_TOKENS)
    write_atomically(run / ROLLOUTS / f"{update:06d}.npz", kept.to_bytes())


def bounded(batch: RolloutBatch, most_tokens: int) -> RolloutBatch:
    """Return the first groups of a batch with at most ``most_tokens`` tokens in all, but at least one group."""
    ends = np.append(batch.group_start[1:], len(batch))
    n = max(1, int((batch.language.transition_offset[ends] <= most_tokens).sum()))
    return batch.of_groups(np.arange(batch.n_groups) < n)
