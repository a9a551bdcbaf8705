"""The life of a training run. Read ``run`` from top to bottom, then ``_Run.finish``."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bepo.core import phases
from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError, say
from bepo.core.plugins import imported_plugins
from bepo.core.seeds import derive_seed
from bepo.core.settings import outside_identity
from bepo.credit import Credit, Estimator
from bepo.credit._audit import audit
from bepo.envs import Split, Task
from bepo.rollouts.task_sets import TaskSet, task_set
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.runs.continuation import continue_shorter_run
from bepo.runs.dynamic_sampling import collect_mixed
from bepo.runs.ending import last_line, next_command
from bepo.runs.evaluations import Evaluations
from bepo.runs.health import alarms, alarms_of
from bepo.runs.machine import machine
from bepo.runs.metrics import credit_metrics, prefixed, rollout_metrics
from bepo.runs.progress import ProgressBar, interrupts
from bepo.runs.rollout_files import keep_rollouts
from bepo.runs.wandb_labels import labels_of, origin, summary_of
from bepo.store.cells import files_of_run, note_cell
from bepo.store.files import advise, disk_errors, remove_leftovers
from bepo.store.published import PUBLISHED, WARM_STARTS
from bepo.store.run_files import StoredRun, read_run, refuse_older
from bepo.store.runs import RunFolder, run_id
from bepo.store.source import SOURCE
from bepo.store.tracking import Trackers
from bepo.training.backends import Engine, Rollouts, Setup

_MUST_BE_FINITE = ("policy_loss", "grad_norm", "value_loss", "critic_grad_norm", "kl", "entropy")  # of an update
_SHARED = ("task_sets", WARM_STARTS, "first_evaluations")  # folders that all runs of a results folder share
_COMPLETE = " is complete"
_TASK_STREAM = 0x7461736B  # random stream of the order of tasks
_EXTRA_STREAM = 0x65787472  # random stream of the further batches of dynamic sampling


def run(
    config: Config, overrides: Sequence[str] = (), *, varying: Sequence[str] = (), hides_test: bool = False
) -> float:
    """Train as ``config`` says, leave a complete run folder, and return the final test success rate.

    A complete run is not repeated. A killed run continues from its checkpoint and gives the same numbers. ``overrides``
    name the cell of a study, if there is one, and ``varying`` are those by which it differs from the other cells.
    ``hides_test``: whether the run is a trial of a search. It prints validation success, because test tasks must not
    be used to choose settings.
    """
    with disk_errors(Path(config.results)):
        done, state, interrupted = _finished(config, overrides, varying)
    split: Split = "validation" if hides_test or "objectives" in config.study else "test"
    say(last_line(config, done, state, split, overrides, varying))
    if interrupted:
        raise KeyboardInterrupt
    return done.metadata["result"]["success"]


def _finished(config: Config, overrides: Sequence[str], varying: Sequence[str]) -> tuple[StoredRun, str, bool]:
    """Train as documented in ``run``.

    Return the run, " is complete" if it was not trained now, and whether Ctrl-C came too late to stop it.
    """
    results, device = Path(config.results), config.backend.resolve()
    refuse_older(results)
    for shared in (*_SHARED, *results.glob("studies/*/*")):
        remove_leftovers(results / shared, seconds=600)  # another process may still write a younger one
    identity = identity_of(config)
    folder = RunFolder(results, run_id(identity))
    if folder.is_complete and not os.access(folder.path, os.W_OK):  # read-only: no lock is possible
        with advise(folder.advice):
            return read_run(folder.path), _COMPLETE, False
    with folder.locked(), phases.shown(config.progress):
        if config.study:
            own = cell_overrides(config, overrides)
            note_cell(results, config.study["name"], config.tier, own, folder.id, varying)
        if folder.is_complete:
            with advise(folder.advice):
                done = read_run(folder.path)
            if done.config.get("keep") != "resume":
                folder.drop_checkpoints()  # if the run was killed after it was completed
            return done, _COMPLETE, False
        session = new_session(config)
        if not folder.checkpoints():
            continue_shorter_run(folder, identity)
        folder.start(asdict(config), session)
        setup = make_setup(config, folder, device, task_sets_of(config))
        engine = config.backend.start(setup)
        try:
            work = _Run(config, setup, folder, engine, cell_overrides(config, overrides))
            work.finish()
        finally:
            engine.close()
        done = read_run(folder.path)
        for alarm in alarms_of(done):
            say(f"run {folder.id}: ALARM {alarm} ({next_command('diagnose', config)})")
        return done, "", work.interrupted


def new_session(config: Config) -> dict[str, Any]:
    """Return the metadata of a session of work that begins now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    session = {"started": now, **origin(config), **SOURCE, "plugins": imported_plugins(), "machine": machine()}
    return session | {"settings": outside_identity(config)}


def task_sets_of(config: Config) -> dict[Split, TaskSet]:
    sizes: dict[Split, int] = {
        "train": config.rollout.train_tasks,
        "validation": config.evaluation.tasks,
        "test": config.evaluation.tasks,
    }
    return {split: task_set(config.env, split, n, Path(config.results) / "task_sets") for split, n in sizes.items()}


def make_setup(
    config: Config, folder: RunFolder, device: str, task_sets: dict[Split, TaskSet], weights: Path | None = None
) -> Setup:
    """Return the set-up of a run's engine; ``weights`` is the folder of a trained policy."""
    return Setup(
        env=config.env,
        agent=config.agent,
        policy=config.policy,
        loss=config.loss,
        training=config.training,
        evaluation=config.evaluation,
        sampling=config.rollout.sampling,
        trajectories=config.rollout.tasks * config.rollout.group_size,
        updates=config.updates,
        needs_critic=config.credit.needs_critic,
        task_sets=task_sets,
        device=device,
        cache=Path(config.results) / WARM_STARTS,
        published=PUBLISHED / config.tier / WARM_STARTS,
        folder=folder.path,
        weights=weights,
    )


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


class _Run:
    """A run in progress."""

    def __init__(
        self, config: Config, setup: Setup, folder: RunFolder, engine: Engine, overrides: Sequence[str] = ()
    ) -> None:
        self.config, self.folder, self.engine, self.task_sets = config, folder, engine, setup.task_sets
        self.overrides = overrides
        self.evaluations = Evaluations(config, setup, folder, engine)
        self.began = time.perf_counter(), engine.cpu_seconds()
        saved = folder.rewind()
        self.update = saved[0] if saved else 0
        self.begun = saved is not None
        self.interrupted = False  # whether Ctrl-C came while the end of the run was written
        if saved:
            engine.load(saved[1])
        labels = labels_of(config, folder, overrides)
        self.tracker = Trackers(config.tracking, folder.id, folder.path, labels, earlier=folder.rows("metrics"))

    def finish(self) -> float:
        """Make the remaining updates, evaluate, and complete the folder. Return the final test success rate."""
        config, folder = self.config, self.folder
        try:
            if not self.begun:
                self.evaluations.first()
                self._checkpoint()
            with interrupts("this update") as interrupted, ProgressBar(config, self.update) as bar:
                while self.update < config.updates:
                    self.update += 1
                    row = self._train_step()
                    if self.evaluations.is_due(self.update):
                        watch = Stopwatch(self.engine)
                        row |= self.evaluations.while_training(self.update)
                        watch.lap("evaluation")
                        row |= prefixed("time", watch.wall) | prefixed("cpu", watch.cpu)
                    folder.append("metrics", row)
                    self.tracker.log(row)
                    if self.update % config.checkpoint_every == 0:
                        self._checkpoint()
                    bar.advance(row)
                    if interrupted:
                        self._checkpoint()
                        raise KeyboardInterrupt
            self._checkpoint()
            success = self.evaluations.last(self.update)
            with interrupts("the end of this run") as interrupted:
                self._complete(success)
            self.interrupted = bool(interrupted)
            return success
        except BaseException:
            self.tracker.finish(None)
            raise

    def _train_step(self) -> dict[str, Any]:
        """Collect rollouts, compute advantages, update the policy. Return the row of ``metrics.jsonl``."""
        config, seed = self.config, derive_seed(self.config.seed, self.update)
        watch = Stopwatch(self.engine)
        rollouts, sampled = self._collect()
        watch.lap("rollout")
        rollouts = self.engine.prepare_batch(rollouts)
        watch.lap("values")
        batch = rollouts.batch
        credit = config.credit(batch)
        if not isinstance(credit, Credit):
            name = config.credit.name
            raise UserError(f"credit={name}: must return bepo.credit.Credit, not {type(credit).__name__}")
        advantage = credit.of_tokens(batch.language.response_length)
        credit.metrics = audit(batch, credit)
        watch.lap("credit")
        self._refuse_non_finite({"credit/advantage": float(np.abs(advantage).max())})
        stats = self.engine.update(rollouts, advantage, seed, credit.token_return)
        self._refuse_non_finite({f"train/{name}": stats[name] for name in _MUST_BE_FINITE if name in stats})
        self.engine.release(rollouts)
        watch.lap("update")
        keep_rollouts(self.folder.path, batch, self.update, config.updates, config.save_rollouts)
        wall = {stage: seconds for stage, seconds in watch.wall.items() if stage != "values"}
        wall |= rollouts.seconds  # the engine's own stages
        return {
            "update": self.update,
            **rollout_metrics(sampled, config.policy.max_response_length, self.engine.end_ids, config.env.horizon),
            **({"train/kept_groups": batch.n_groups} if config.rollout.mixed_groups else {}),
            **credit_metrics(credit),
            "credit/token_advantage_mean": float(advantage.mean()),
            **prefixed("train", stats),
            **prefixed("time", wall),
            **prefixed("cpu", watch.cpu),
        }

    def _collect(self) -> tuple[Rollouts, RolloutBatch]:
        """Return the rollouts that the update trains on, and all rollouts that were sampled for it."""
        rollout, needs = self.config.rollout, self.config.credit.needs

        def collect(number: int) -> Rollouts:
            seeds = [self.config.seed, derive_seed(self.config.seed, self.update)]
            of_tasks, of_episodes = [derive_seed(s, _EXTRA_STREAM, number) for s in seeds] if number else seeds
            tasks = draw_tasks(self.task_sets["train"], rollout.tasks_per_update, of_tasks, self.update)
            return self.engine.collect(tasks, rollout.trajectories_per_task, rollout.sampling, of_episodes, needs)

        if not rollout.mixed_groups:
            rollouts = collect(0)
            return rollouts, rollouts.batch
        rollouts, sampled = collect_mixed(self.engine, collect, rollout.tasks, rollout.max_batches)
        return rollouts, RolloutBatch.concat(sampled)

    def _refuse_non_finite(self, values: Mapping[str, float]) -> None:
        """Raise ``UserError`` for a number that is not finite, before anything of this update is saved."""
        for name, value in values.items():
            if not math.isfinite(value):
                of_credit = f"check the estimator {self.config.credit.name}"
                advice = of_credit if name.startswith("credit/") else "try a lower training.learning_rate"
                raise UserError(
                    f"run {self.folder.id}: stopped at update {self.update}, {name} became {value}; {advice}; the last "
                    f"checkpoint is kept in {self.folder.path}"
                )

    def _checkpoint(self) -> None:
        """Save a checkpoint, unless the update has one already."""
        if any(update == self.update for update, _ in self.folder.checkpoints()):
            return
        with self.folder.new_checkpoint(self.update, self.config.checkpoints) as path:
            self.engine.save(path)

    def _complete(self, success: float) -> None:
        wall, cpu = self.began
        metadata = metadata_of(self.config, self.folder, self.task_sets, self.engine.facts, wall)
        metadata["method"] = metadata_of_method(self.config.credit)
        metadata["result"] = {"success": success, "updates": self.update}
        metadata["alarms"] = alarms(self.folder.rows("metrics"), self.config.health)
        metadata["cpu_seconds_last_session"] = round(self.engine.cpu_seconds() - cpu, 1)
        (_, checkpoint), *_ = self.folder.checkpoints()
        self.folder.keep_policy(self.engine.policy_in(checkpoint))
        self.folder.complete(metadata)
        self.folder.drop_checkpoints(keep=int(self.config.keep == "resume"))
        results = Path(self.config.results)
        labels = labels_of(self.config, self.folder, self.overrides)
        self.tracker.log_transcripts(self.update, read_run(self.folder.path).transcripts())
        files = files_of_run(results, self.folder.id)
        self.tracker.finish(summary_of(self.folder, self.update, success), files, results, labels)


def metadata_of(
    config: Config, folder: RunFolder, task_sets: Mapping[Split, TaskSet], played_on: Mapping[str, Any], began: float
) -> dict[str, Any]:
    """Return the metadata of a training or an evaluation for ``run.json``, without its result.

    ``played_on`` is the metadata of the engine or endpoint, ``began`` the clock when the last session began.
    """
    return {
        "status": "complete",
        "tier": config.tier,
        "seed": config.seed,
        "task_sets": {split: {"tasks": len(tasks), "digest": tasks.digest} for split, tasks in task_sets.items()},
        "identity": identity_of(config),
        "sessions": folder.sessions(),
        "wall_seconds_last_session": round(time.perf_counter() - began, 1),
        "environment": config.env.facts(),
        **played_on,
        "versions": {**played_on["versions"], "python": platform.python_version()},
    }


def metadata_of_method(credit: Estimator) -> dict[str, Any]:
    """Return what tables say about an estimator, so that a run keeps it with its numbers."""
    return {"citation": credit.citation, "reconstruction": credit.reconstruction, **credit.traits}


def draw_tasks(train: TaskSet, n: int, seed: int, update: int) -> list[Task]:
    """Return the ``n`` tasks of an update: the next slice of seeded permutations of the set, one per epoch."""
    first = (update - 1) * n
    epochs = range(first // len(train), (first + n - 1) // len(train) + 1)
    orders = [np.random.default_rng(derive_seed(seed, _TASK_STREAM, e)).permutation(len(train)) for e in epochs]
    start = first - epochs[0] * len(train)
    return [train.tasks[i] for i in np.concatenate(orders)[start : start + n]]
