"""One update of a training run: rollouts, advantages, the gradient step, and the row of ``metrics.jsonl``."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.seeds import derive_seed
from bepo.credit._audit import audit
from bepo.envs import Task
from bepo.rollouts.task_sets import TaskSet
from bepo.runs.config import Config
from bepo.runs.dynamic_sampling import collect_mixed
from bepo.runs.metrics import OF_ADVANTAGES, credit_metrics, prefixed, rollout_metrics
from bepo.runs.rollout_files import keep_rollouts
from bepo.store.runs import RunFolder
from bepo.training.backends import Engine, Rollouts

_MUST_BE_FINITE = ("policy_loss", "grad_norm", "value_loss", "critic_grad_norm", "kl", "entropy")
_TASK_STREAM = 0x7461736B  # random stream of the order of tasks
_EXTRA_STREAM = 0x65787472  # random stream of the further batches of dynamic sampling


class Stopwatch:
    """Seconds of successive stages: wall-clock, and CPU over all processes of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._wall, self._cpu = time.perf_counter(), engine.cpu_seconds()

    def lap(self, stage: str) -> None:
        """Record the seconds of the stage that ends now."""
        wall, cpu = time.perf_counter(), self._engine.cpu_seconds()
        self.wall[stage], self.cpu[stage] = wall - self._wall, max(cpu - self._cpu, 0.0)
        self._wall, self._cpu = wall, cpu


class Updates:
    """The updates of a run."""

    def __init__(self, config: Config, folder: RunFolder, engine: Engine, train: TaskSet) -> None:
        """``train``: the tasks to draw from."""
        self.config, self.folder, self.engine, self.train = config, folder, engine, train

    def make(self, update: int) -> dict[str, Any]:
        """Collect rollouts, compute advantages, update the policy. Return the row of ``metrics.jsonl``."""
        config, seed = self.config, derive_seed(self.config.seed, update)
        watch = Stopwatch(self.engine)
        rollouts, sampled = self._collect(update)
        watch.lap("rollout")
        rollouts = self.engine.prepare_batch(rollouts)
        watch.lap("values")
        batch = rollouts.batch
        credit = config.credit.credit_of(batch)
        advantage = credit.of_tokens(batch.language.response_length)
        audited = audit(batch, credit)
        config.credit.refuse_names(credit.metrics, {*audited, *OF_ADVANTAGES})
        credit.metrics = audited | credit.metrics
        watch.lap("credit")
        self._refuse_non_finite(update, {"credit/advantage": _largest(credit.advantage, advantage)})
        if credit.token_return is not None:
            self._refuse_non_finite(update, {"credit/token_return": _largest(credit.token_return)})
        stats = self.engine.update(rollouts, advantage, seed, credit.token_return)
        self._refuse_non_finite(update, {f"train/{name}": stats[name] for name in _MUST_BE_FINITE if name in stats})
        self.engine.release(rollouts)
        watch.lap("update")
        keep_rollouts(self.folder.path, batch, update, config.updates, config.save_rollouts)
        wall = {stage: seconds for stage, seconds in watch.wall.items() if stage != "values"}
        wall |= rollouts.seconds  # the engine's own stages
        of_rollouts = rollout_metrics(
            sampled, config.policy.max_response_length, self.engine.end_ids, config.env.horizon
        )
        config.loss.refuse_names(stats, {name.removeprefix("train/") for name in of_rollouts})
        return {
            "update": update,
            **of_rollouts,
            **({"train/kept_groups": batch.n_groups} if config.rollout.mixed_groups else {}),
            **credit_metrics(credit),
            "credit/token_advantage_mean": float(advantage.mean()),
            **prefixed("train", stats),
            **prefixed("time", wall),
            **prefixed("cpu", watch.cpu),
        }

    def _collect(self, update: int) -> tuple[Rollouts, RolloutBatch]:
        """Return the rollouts that the update trains on, and all rollouts that were sampled for it."""
        rollout, needs = self.config.rollout, self.config.credit.needs

        def collect(number: int) -> Rollouts:
            seeds = [self.config.seed, derive_seed(self.config.seed, update)]
            of_tasks, of_episodes = [derive_seed(s, _EXTRA_STREAM, number) for s in seeds] if number else seeds
            tasks = draw_tasks(self.train, rollout.tasks_per_update, of_tasks, update)
            return self.engine.collect(tasks, rollout.trajectories_per_task, rollout.sampling, of_episodes, needs)

        if not rollout.mixed_groups:
            rollouts = collect(0)
            return rollouts, rollouts.batch
        rollouts, sampled = collect_mixed(self.engine, collect, rollout.tasks, rollout.max_batches)
        return rollouts, RolloutBatch.concat(sampled)

    def _refuse_non_finite(self, update: int, values: Mapping[str, float]) -> None:
        """Raise ``UserError`` for a number that is not finite, before anything of this update is saved."""
        for name, value in values.items():
            if not math.isfinite(value):
                of_credit = f"check the estimator {self.config.credit.name}"
                advice = of_credit if name.startswith("credit/") else "try a lower training.learning_rate"
                raise UserError(
                    f"run {self.folder.id}: stopped at update {update}, {name} became {value}; {advice}; the last "
                    f"checkpoint is kept in {self.folder.path}"
                )


def _largest(*arrays: Float[np.ndarray, " n"]) -> float:
    """Return the largest absolute value; NaN if there is one."""
    return float(max((np.abs(array).max() for array in arrays), key=lambda x: (np.isnan(x), x)))


def draw_tasks(train: TaskSet, n: int, seed: int, update: int) -> list[Task]:
    """Return the ``n`` tasks of an update: the next slice of seeded permutations of the set, one per epoch."""
    first = (update - 1) * n
    epochs = range(first // len(train), (first + n - 1) // len(train) + 1)
    orders = [np.random.default_rng(derive_seed(seed, _TASK_STREAM, e)).permutation(len(train)) for e in epochs]
    start = first - epochs[0] * len(train)
    return [train.tasks[i] for i in np.concatenate(orders)[start : start + n]]
