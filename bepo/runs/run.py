"""The life of a run: read ``run`` from top to bottom, then ``_Run.finish``."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bepo.core.seeds import derive_seed
from bepo.credit import Estimator
from bepo.envs import Split, Task
from bepo.rollouts.evaluation import evaluate, success_rate
from bepo.rollouts.task_sets import TaskSet, task_set
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.runs.metrics import credit_metrics, prefixed, rollout_metrics
from bepo.runs.progress import ProgressBar, interrupts
from bepo.store.cells import files_of_run, note_cell
from bepo.store.runs import RunFolder, read_run, run_id
from bepo.store.source import source_state
from bepo.store.tracking import Tracker
from bepo.training.backend import Engine, Setup, collect_and_release

_TASK_STREAM = 0x7461736B  # keeps the order of tasks apart from other draws of the same seed


def run(config: Config, overrides: Sequence[str] = ()) -> float:
    """Train as ``config`` says, leave a complete run folder, and return the final test success rate.

    A complete run is not repeated, and a killed one goes on from its checkpoint to the same numbers. ``overrides``
    name the run's cell in its study, if it belongs to one.
    """
    results, device = Path(config.results), config.backend.resolve()
    folder = RunFolder(results, run_id(identity_of(config, device)))
    with folder.locked():
        if config.study:
            note_cell(results, config.study["name"], config.tier, cell_overrides(overrides), folder.id)
        if folder.is_complete:
            done = read_run(folder.path)
            print(f"run {folder.id} is complete: success {done.facts['result']['success']:.3f} ({folder.path})")
            return done.facts["result"]["success"]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        folder.start(asdict(config), {"started": now, **source_state()})
        task_sets = _task_sets(config)
        engine = config.backend.start(make_setup(config, folder, device, task_sets))
        try:
            success = _Run(config, folder, engine, task_sets).finish()
        finally:
            engine.close()
        print(f"run {folder.id}: success {success:.3f} on held-out tasks ({folder.path})")
        return success


def _task_sets(config: Config) -> dict[Split, TaskSet]:
    sizes: dict[Split, int] = {
        "train": config.rollout.train_tasks,
        "validation": config.evaluation.tasks,
        "test": config.evaluation.tasks,
    }
    return {split: task_set(config.env, split, n, Path(config.results) / "task_sets") for split, n in sizes.items()}


def make_setup(config: Config, folder: RunFolder, device: str, task_sets: dict[Split, TaskSet]) -> Setup:
    """Return what the engine of a run starts from."""
    return Setup(
        env=config.env,
        agent=config.agent,
        policy=config.policy,
        training=config.training,
        evaluation=config.evaluation,
        sampling=config.rollout.sampling,
        trajectories=config.rollout.tasks * config.rollout.group_size,
        updates=config.updates,
        needs_critic=config.credit.needs_critic,
        task_sets=task_sets,
        device=device,
        cache=Path(config.results) / "warm_starts",
        folder=folder.path,
    )


class _Run:
    """A run in progress: its parts, and where it stands."""

    def __init__(self, config: Config, folder: RunFolder, engine: Engine, task_sets: dict[Split, TaskSet]) -> None:
        self.config, self.folder, self.engine, self.task_sets = config, folder, engine, task_sets
        self.clock = time.perf_counter()
        saved = folder.checkpoint()
        self.update = saved[0] if saved else 0
        if saved:
            engine.load(saved[1])
        folder.rewind()
        self.tracker = Tracker(config.tracking, folder.id, folder.path, asdict(config))

    def finish(self) -> float:
        """Make the updates that are left, evaluate, and complete the folder; returns the final test success rate."""
        config, folder = self.config, self.folder
        try:
            if folder.checkpoint() is None:
                self._evaluate("test", range(config.evaluation.seeds))
                self._evaluate("validation", [0])
                self._checkpoint()
            with interrupts() as interrupted, ProgressBar(config, self.update) as bar:
                while self.update < config.updates:
                    self.update += 1
                    row = self._train_step()
                    due = config.evaluation.every and self.update % config.evaluation.every == 0
                    if due:
                        start = time.perf_counter()
                        row["eval/validation_success"] = self._evaluate("validation", [0])
                        row["time/evaluation"] = time.perf_counter() - start
                    folder.append("metrics", row)
                    self.tracker.log(row)
                    if self.update % config.checkpoint_every == 0 or interrupted:
                        self._checkpoint()
                    bar.show(row)
                    if interrupted:
                        raise KeyboardInterrupt
            self._checkpoint()
            success = self._evaluate("test", range(config.evaluation.seeds))
            self._complete(success)
            return success
        except BaseException:
            self.tracker.finish(None)
            raise

    def _train_step(self) -> dict[str, Any]:
        """Rollouts, advantages, one policy update; returns the row of ``metrics.jsonl``, times in seconds."""
        config, seed = self.config, derive_seed(self.config.seed, self.update)
        marks = [time.perf_counter()]
        tasks = draw_tasks(self.task_sets["train"], config.rollout.tasks_per_update, config.seed, self.update)
        rollouts = self.engine.collect(tasks, config.rollout.trajectories_per_task, config.rollout.sampling, seed)
        marks.append(time.perf_counter())
        rollouts = self.engine.compute_values(rollouts)
        batch = rollouts.batch
        marks.append(time.perf_counter())
        credit = config.credit(batch)
        marks.append(time.perf_counter())
        advantage = credit.token_advantage
        if advantage is None:
            advantage = np.repeat(credit.advantage, batch.language.response_length)
        stats = self.engine.update(rollouts, advantage, seed, credit.token_return)
        self.engine.release(rollouts)
        marks.append(time.perf_counter())
        if config.save_rollouts and self.update % config.save_rollouts == 0:
            (self.folder.path / "rollouts").mkdir(exist_ok=True)
            batch.save(self.folder.path / "rollouts" / f"{self.update:06d}.npz")
        rollout, _, credited, updated = np.diff(marks).tolist()
        times = {"rollout": rollout, **rollouts.seconds, "credit": credited, "update": updated}
        return {
            "update": self.update,
            **rollout_metrics(batch, config.policy.max_response_length, self.engine.end_token),
            **credit_metrics(credit),
            "credit/token_advantage_mean": float(advantage.mean()),
            **prefixed("train", stats),
            **prefixed("time", times),
        }

    def _evaluate(self, split: Split, seeds: Sequence[int]) -> float:
        """Make one pass for each evaluation seed, note its episodes, and return the mean success rate."""
        collect = partial(collect_and_release, self.engine)
        rows = [
            {"update": self.update, **row}
            for seed in seeds
            for row in evaluate(collect, self.task_sets[split], seed, self.config.evaluation.sampling)
        ]
        self.folder.append("episodes", *rows)
        return success_rate(rows)

    def _checkpoint(self) -> None:
        """Save where the run stands, unless that is saved already."""
        saved = self.folder.checkpoint()
        if saved and saved[0] == self.update:
            return
        with self.folder.new_checkpoint(self.update) as path:
            self.engine.save(path)

    def _complete(self, success: float) -> None:
        facts = {
            "status": "complete",
            "tier": self.config.tier,
            "seed": self.config.seed,
            "method": method_facts(self.config.credit),
            "task_sets": {s: {"tasks": len(p), "digest": p.digest} for s, p in self.task_sets.items()},
            "method_versions": identity_of(self.config, self.engine.facts["device"])["method_versions"],
            "result": {"success": success, "updates": self.update},
            "sessions": self.folder.sessions(),
            "wall_seconds_last_session": round(time.perf_counter() - self.clock, 1),
            "machine": platform.platform(),
            **self.engine.facts,
            "environment": self.config.env.facts(),
        }
        facts["versions"] = facts["versions"] | {"python": platform.python_version()}
        self.folder.complete(facts)
        results = Path(self.config.results)
        self.tracker.finish({"test_success": success}, files_of_run(results, self.folder.id), results)


def method_facts(credit: Estimator) -> dict[str, Any]:
    """Return what a table may say about an estimator, kept with its numbers."""
    return {"citation": credit.citation, "reconstruction": credit.reconstruction, **credit.traits}


def draw_tasks(train: TaskSet, n: int, seed: int, update: int) -> list[Task]:
    """Return the ``n`` tasks of an update: successive slices of seeded permutations of the set, one for each pass."""
    first = (update - 1) * n
    epochs = range(first // len(train), (first + n - 1) // len(train) + 1)
    orders = [np.random.default_rng(derive_seed(seed, _TASK_STREAM, e)).permutation(len(train)) for e in epochs]
    start = first - epochs[0] * len(train)
    return [train.tasks[i] for i in np.concatenate(orders)[start : start + n]]
