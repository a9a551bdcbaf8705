"""Evaluation passes over a fixed task set: one row for each episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.seeds import derive_seed
from bepo.core.settings import Settings, setting
from bepo.envs import Task
from bepo.rollouts.collect import Sampling, overlong
from bepo.rollouts.task_sets import TaskSet

Collect = Callable[[Sequence[Task], int, Sampling, int], RolloutBatch]  # tasks, trajectories of each, sampling, seed
_STREAM = 0x6576616C  # keeps evaluation draws apart from training draws of the same seed


@dataclass
class Evaluation(Settings):
    """The paper's protocol: 128 fixed tasks, temperature 0.4, three evaluation seeds."""

    tasks: int = setting(128, at_least=1, at_most=100_000)
    """Number of tasks in the test set, and in the validation set, by which a warm start knows when to stop."""
    seeds: int = setting(3, at_least=1, at_most=1_000)
    """Number of passes over the test and the validation tasks, before the first and after the last update."""
    every: int = setting(10, at_least=0)
    """Updates between two evaluations during training, with one pass over each of the two sets; 0: no evaluations."""
    late_passes: int = setting(0, at_least=0, at_most=100, neutral=True)
    """Number of further evaluations, evenly spaced over the last fifth of the updates; the last is after the last
    update. Their mean is steadier than one pass at the end."""
    temperature: float = setting(0.4, at_least=0)
    """Sampling temperature. 0 (greedy) is only for served policies. A warm start is measured at it, too, so another
    temperature fits another start."""
    top_p: float = setting(1.0, above=0, at_most=1)
    """Draw from the most likely tokens that together have this probability; 1: from all tokens."""
    top_k: int = -1
    """Draw from this many of the most likely tokens; -1: from all tokens."""

    group = "evaluation"

    def __post_init__(self) -> None:
        super().__post_init__()
        Sampling(self.temperature or 1.0, self.top_p, self.top_k)  # checks top_p and top_k

    def is_due(self, update: int, updates: int) -> bool:
        """Return whether there is an evaluation after this update of a run with ``updates`` updates."""
        late = {updates - i * updates // (5 * self.late_passes) for i in range(self.late_passes)}
        return update in late or (self.every > 0 and update % self.every == 0)

    @property
    def sampling(self) -> Sampling:
        """The sampling parameters of evaluation episodes."""
        return Sampling(self.temperature, self.top_p, self.top_k)


def play(collect: Collect, task_set: TaskSet, seed: int, sampling: Sampling) -> RolloutBatch:
    """Run one episode of each task, and return them in the order of the tasks; every draw follows from ``seed``."""
    return collect(task_set.tasks, 1, sampling, derive_seed(_STREAM, seed))


def episode_rows(batch: RolloutBatch, task_set: TaskSet, seed: int, horizon: int) -> list[dict[str, Any]]:
    """Return a row for each episode of ``play``, in the order of the tasks.

    If an episode ended because its next prompt was too long, its row has ``overlong: true``.
    """
    cut = overlong(batch, horizon)
    steps = batch.step[batch.last] + 1
    valid = np.bincount(batch.trajectory, weights=batch.valid) / steps
    return [
        {
            "split": task_set.split,
            "evaluation_seed": seed,
            "task": task.id,
            "kind": task.kind,
            "success": bool(batch.success[i]),
            "task_score": float(batch.task_score[i]),
            "return": float(batch.episode_return[i]),
            "steps": int(steps[i]),
            "valid": float(valid[i]),
            "broken": bool(batch.broken[i]),
            **({"overlong": True} if cut[i] else {}),
        }
        for i, task in enumerate(task_set.tasks)
    ]
