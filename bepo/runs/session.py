"""What training and evaluation share: the session of work on a run's folder, and the set-up of its engine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bepo.core import phases
from bepo.core.errors import no_exit, say
from bepo.core.plugins import imported_plugins
from bepo.core.settings import outside_identity
from bepo.envs import Split
from bepo.rollouts.task_sets import TaskSet, task_set
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.runs.machine import machine
from bepo.runs.wandb_labels import labels_of, origin
from bepo.store.cells import files_of_run, note_cell
from bepo.store.files import disk_errors, with_hint
from bepo.store.folders import remove_leftovers
from bepo.store.published import PUBLISHED, WARM_STARTS
from bepo.store.run_files import StoredRun, read_run, refuse_older
from bepo.store.runs import RunFolder, run_id
from bepo.store.source import SOURCE
from bepo.store.tracking import Trackers
from bepo.training.backends import Setup

_SHARED = ("task_sets", WARM_STARTS, "first_evaluations")  # folders that all runs of a results folder share


class RunSession:
    """A session of work on a run of training or evaluation: its folder, trackers, metadata and last line."""

    def __init__(self, config: Config, overrides: Sequence[str], varying: Sequence[str] = ()) -> None:
        """``overrides`` name the cell of a study; ``varying`` are those by which it differs from the other cells."""
        self.config, self.overrides, self.varying = config, cell_overrides(config, overrides), varying
        self.results = Path(config.results)
        self.folder = RunFolder(self.results, run_id(identity_of(config)))
        self._began = 0.0

    @contextmanager
    def locked(self, is_final: Callable[[StoredRun], bool] = lambda done: True) -> Iterator[StoredRun | None]:
        """Lock the run's folder and note the run's cell. Yield the complete run, or None if there is work to do.

        ``is_final`` says whether a complete run needs no more work. Within the block, a full disk is a
        ``UserError``, and so is ``SystemExit`` of a plug-in, which would end the command in silence.
        """
        with disk_errors(self.results), no_exit("the code of a plug-in or of a package"):
            refuse_older(self.results)
            for shared in (*(self.results / name for name in _SHARED), *self.results.glob("studies/*/*")):
                remove_leftovers(shared, seconds=600)  # another process may still write a younger one
            is_read_only = self.folder.is_complete and not os.access(self.folder.path, os.W_OK)  # no lock is possible
            if is_read_only and is_final(done := self.read()):
                yield done
                return
            with self.folder.locked(), phases.shown(self.config.progress):
                if self.config.study:
                    study = self.config.study["name"]
                    note_cell(self.results, study, self.config.tier, self.overrides, self.folder.id, self.varying)
                done = self.read() if self.folder.is_complete else None
                if done and not is_final(done):
                    done = None
                elif done and done.config.get("keep") != "resume":
                    self.folder.drop_checkpoints()  # if the run was killed after it was completed
                yield done

    def read(self) -> StoredRun:
        """Read the complete run."""
        with with_hint(self.folder.advice):
            return read_run(self.folder.path)

    def end(self, done: StoredRun, words: str, state: str = "") -> float:
        """Print the last line of the complete run, with its result in words. Return its success on test tasks."""
        say(f"run {done.id}{state}: {words} ({done.path})")
        return done.metadata["result"]["success"]

    def start(self) -> None:
        """Write the config and the metadata of a session that begins now."""
        self._began = time.perf_counter()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        session = {"started": now, **origin(self.config), **SOURCE, "plugins": imported_plugins()}
        session |= {"machine": machine(), "settings": outside_identity(self.config)}
        self.folder.start(asdict(self.config), session)

    @contextmanager
    def tracked(self, earlier: Sequence[dict[str, Any]] = ()) -> Iterator[Trackers]:
        """Yield the trackers of the run. An error within the block marks the run as failed there."""
        labels = labels_of(self.config, self.folder, self.overrides)
        trackers = Trackers(self.config.tracking, self.folder.id, self.folder.path, labels, earlier=earlier)
        try:
            yield trackers
        except BaseException:
            trackers.finish(None)
            raise

    def finish(self, trackers: Trackers, summary: dict[str, Any]) -> None:
        """Send the summary and the files of the complete run to its trackers."""
        labels = labels_of(self.config, self.folder, self.overrides)
        trackers.finish(summary, files_of_run(self.results, self.folder.id), self.results, labels)

    def metadata(self, task_sets: Mapping[Split, TaskSet], played_on: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata for ``run.json``, without the result. ``played_on`` is that of the engine or endpoint."""
        return {
            "status": "complete",
            "tier": self.config.tier,
            "seed": self.config.seed,
            "task_sets": {split: {"tasks": len(tasks), "digest": tasks.digest} for split, tasks in task_sets.items()},
            "identity": identity_of(self.config),
            "sessions": self.folder.sessions(),
            "wall_seconds_last_session": round(time.perf_counter() - self._began, 1),
            "environment": self.config.env.metadata(),
            **played_on,
            "versions": {**played_on["versions"], "python": platform.python_version()},
        }


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
        needs=config.credit.needs,
        n_continuations=config.credit.n_continuations,
        task_sets=task_sets,
        device=device,
        cache=Path(config.results) / WARM_STARTS,
        published=PUBLISHED / config.tier / WARM_STARTS,
        folder=folder.path,
        weights=weights,
    )
