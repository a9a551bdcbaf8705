"""The life of an evaluation: a run that trains nothing. Read ``evaluate`` from top to bottom."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bepo.rollouts.task_sets import TaskSet, task_set
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.runs.metrics import success_rate
from bepo.runs.mirror import labels_of
from bepo.runs.players import EnginePlayer, Player
from bepo.runs.run import make_setup, new_session, task_sets_of
from bepo.store.cells import files_of_run, note_cell
from bepo.store.runs import RunFolder, run_id
from bepo.store.stored import read_run, refuse_older
from bepo.store.tracking import Tracker


def evaluate(config: Config, overrides: Sequence[str] = ()) -> float:
    """Evaluate the policy on the test tasks, leave a complete run folder, and return its success rate.

    A complete evaluation is not repeated, and a killed one goes on behind its last whole pass. ``overrides`` name its
    cell in its study, if it belongs to one.
    """
    results = Path(config.results)
    refuse_older(results)
    folder = RunFolder(results, run_id(identity_of(config)))
    with folder.locked():
        if config.study:
            note_cell(results, config.study["name"], config.tier, cell_overrides(config, overrides), folder.id)
        if folder.is_complete:
            done = read_run(folder.path)
            print(f"run {folder.id} is complete: success {done.facts['result']['success']:.3f} ({folder.path})")
            return done.facts["result"]["success"]
        began, player = time.perf_counter(), _player(config, folder)
        try:
            folder.start(asdict(config), new_session(config))
            tracker = Tracker(config.tracking, folder.id, folder.path, labels_of(config, folder, overrides))
            try:
                tasks = task_set(config.env, "test", config.evaluation.tasks, results / "task_sets")
                _play(config, folder, player, tasks)
                success = success_rate(folder.rows("episodes"), "test", 0)
                _complete(config, folder, player, tasks, success, time.perf_counter() - began)
            except BaseException:
                tracker.finish(None)
                raise
            files = files_of_run(results, folder.id)
            tracker.finish({"test_success": success}, files, results, labels_of(config, folder, overrides))
        finally:
            player.close()
        print(f"run {folder.id}: success {success:.3f} on held-out tasks ({folder.path})")
        return success


def _player(config: Config, folder: RunFolder) -> Player:
    """Return what plays the episodes. Raises ``UserError`` where it cannot be had on this machine."""
    setup = make_setup(config, folder, config.backend.resolve(), task_sets_of(config), _weights(config))
    return EnginePlayer(config.backend.start(setup), config.evaluation.sampling)


def _weights(config: Config) -> Path | None:
    """Return the folder of the policy of the run that is evaluated, if one is. Raises ``UserError``."""
    return None if config.run is None else read_run(Path(config.results) / "runs" / config.run).policy()


def _play(config: Config, folder: RunFolder, player: Player, tasks: TaskSet) -> None:
    """Make the passes that are missing; those that an earlier session has finished stay."""
    kept = [rows for rows in _passes(folder.rows("episodes")) if len(rows) == len(tasks)]
    folder.rewrite("metrics", [])
    folder.rewrite("episodes", [row for rows in kept for row in rows])
    for seed in range(len(kept), config.evaluation.seeds):
        made = player.play(tasks, seed)
        if seed == 0:
            folder.write_transcripts(made.transcripts)
        folder.append("episodes", *({"update": 0, **row} for row in made.rows))


def _passes(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the rows of each pass, by evaluation seed from 0."""
    seeds = sorted({row["evaluation_seed"] for row in rows})
    return [[row for row in rows if row["evaluation_seed"] == seed] for seed in seeds]


def _complete(
    config: Config, folder: RunFolder, player: Player, tasks: TaskSet, success: float, seconds: float
) -> None:
    facts = {
        "status": "complete",
        "tier": config.tier,
        "seed": config.seed,
        "task_sets": {"test": {"tasks": len(tasks), "digest": tasks.digest}},
        "identity": identity_of(config),
        "result": {"success": success, "updates": 0},
        "sessions": folder.sessions(),
        "wall_seconds_last_session": round(seconds, 1),
        **player.facts,
        "environment": config.env.facts(),
    }
    facts["versions"] = facts["versions"] | {"python": platform.python_version()}
    folder.complete(facts)
