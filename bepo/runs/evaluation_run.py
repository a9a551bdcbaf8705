"""An evaluation: a run without training. ``evaluate`` reads from top to bottom as its life."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bepo.core import phases
from bepo.core.errors import UserError, say
from bepo.rollouts.task_sets import task_set
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.runs.metrics import of_several, success_rate
from bepo.runs.players import EnginePlayer, Player
from bepo.runs.run import make_setup, metadata_of, new_session, task_sets_of
from bepo.runs.wandb_labels import labels_of
from bepo.store.cells import files_of_run, note_cell
from bepo.store.files import disk_errors
from bepo.store.find import find_run
from bepo.store.run_files import read_run, refuse_older
from bepo.store.runs import RunFolder, run_id
from bepo.store.tracking import Trackers


def evaluate(config: Config, overrides: Sequence[str] = ()) -> float:
    """Evaluate the policy on the test tasks, leave a complete run folder, and return its success rate.

    A complete evaluation is not repeated. A killed one continues after its last complete pass, or after its last answer
    if the policy is served. An episode whose prompt exceeds the model's context is a failure. An episode without an
    answer of the endpoint is missing, and the next session tries it again. Raises ``UserError`` if episodes are
    missing, because the success rate is unknown then. ``overrides`` name the cell of a study, if there is one.
    """
    results = Path(config.results)
    refuse_older(results)
    folder = RunFolder(results, run_id(identity_of(config)))
    weights = None if folder.is_complete else _weights(config)
    with disk_errors(results), folder.locked(), phases.shown(config.progress):
        if config.study:
            note_cell(results, config.study["name"], config.tier, cell_overrides(config, overrides), folder.id)
        if folder.is_complete:
            done = read_run(folder.path).metadata["result"]
            if not done.get("missing"):
                print(f"run {folder.id} is complete: {_said(done)} ({folder.path})")
                return done["success"]
        player = _player(config, folder, weights)
        try:
            result = _Evaluation(config, folder, player, overrides).finish()
        finally:
            player.close()
    if result["missing"]:
        count, reasons = sum(result["missing"].values()), missing_reasons(result["missing"])
        raise UserError(
            f"run {folder.id}: {count} of {config.evaluation.tasks * config.evaluation.seeds} episodes are missing "
            f"({reasons}), so there is no success rate; the same command tries them again ({folder.path})"
        )
    print(f"run {folder.id}: {_said(result)} ({folder.path})")
    return result["success"]


def _said(result: dict[str, Any]) -> str:
    """Return the success rate of a result in words, and how many episodes ended because a prompt was too long."""
    overlong = result.get("overlong", 0)
    cut = f"; {overlong} failed because a prompt exceeded the model's context" if overlong else ""
    pass_at = ", ".join(f"pass@{k} {rate:.3f}" for k, rate in result.get("pass_at", {}).items() if k != "1")
    return f"success {result['success']:.3f} on held-out tasks{pass_at and f' ({pass_at})'}{cut}"


def missing_reasons(missing: Mapping[str, int]) -> str:
    """Return the number of missing episodes by reason, in words."""
    return ", ".join(f"{count} x {reason}" for reason, count in missing.items())


def _player(config: Config, folder: RunFolder, weights: Path | None) -> Player:
    """Return the player of the episodes. Raises ``UserError`` if this machine lacks something for it."""
    if config.policy.served:
        from bepo.runs.served_player import ServedPlayer

        return ServedPlayer(config, folder)
    fitted = weights is None and config.policy.warm_start_settings is not None
    task_sets = task_sets_of(config) if fitted else {}  # what the warm start is fitted to
    setup = make_setup(config, folder, config.backend.resolve(), task_sets, weights)
    return EnginePlayer(config.backend.start(setup), config.evaluation.sampling, config.env.horizon)


def _weights(config: Config) -> Path | None:
    """Return the policy folder of the run that is evaluated, or None without ``run``. Raises ``UserError``."""
    return None if config.run is None else find_run(config.run, Path(config.results)).policy()


class _Evaluation:
    """An evaluation in progress."""

    def __init__(self, config: Config, folder: RunFolder, player: Player, overrides: Sequence[str]) -> None:
        self.config, self.folder, self.player, self.overrides = config, folder, player, overrides
        self.clock = time.perf_counter()
        self.tasks = task_set(config.env, "test", config.evaluation.tasks, Path(config.results) / "task_sets")

    def finish(self) -> dict[str, Any]:
        """Make the remaining passes, and complete the folder. Return the result as in ``run.json``."""
        config, folder, results = self.config, self.folder, Path(self.config.results)
        folder.reopen()
        folder.start(asdict(config), new_session(config))
        labels = labels_of(config, folder, self.overrides)
        tracker = Trackers(config.tracking, folder.id, folder.path, labels)
        try:
            missing = self._play()
            rows = folder.rows("episodes")
            if not rows:
                raise UserError(f"run {folder.id}: no episode got an answer ({'; '.join(missing)})")
            if all(row.get("overlong") and not row["steps"] for row in rows):
                raise UserError(
                    f"run {folder.id}: every first prompt exceeds the model's context (with "
                    f"policy.max_response_length={config.policy.max_response_length}); choose a shorter response, or "
                    "serve the model with a larger context"
                )
            success = None if missing else success_rate(rows, "test", 0)
            result = {"success": success, "updates": 0, "missing": dict(missing)}
            if not missing:
                result |= of_several(rows, config.evaluation.seeds)
            result["overlong"] = sum(row.get("overlong", False) for row in rows)
            metadata = metadata_of(config, folder, {"test": self.tasks}, self.player.metadata, self.clock)
            folder.complete(metadata | {"result": result})
        except BaseException:
            tracker.finish(None)
            raise
        summary = {"missing_episodes": sum(missing.values()), "overlong_episodes": result["overlong"]}
        summary |= {} if missing else {"test_success": result["success"]}
        tracker.finish(summary, files_of_run(results, folder.id), results, labels_of(config, folder, self.overrides))
        return result

    def _play(self) -> Counter[str]:
        """Make the passes that are not complete. Return the number of missing episodes by reason."""
        folder, missing = self.folder, Counter[str]()
        passes: dict[int, list[dict[str, Any]]] = {}
        for row in folder.rows_of_passes():
            passes.setdefault(row["evaluation_seed"], []).append(row)
        whole = {seed: rows for seed, rows in passes.items() if len(rows) == len(self.tasks)}
        left = [seed for seed in range(self.config.evaluation.seeds) if seed not in whole]
        folder.rewrite("metrics", [])
        folder.rewrite("episodes", [row for rows in whole.values() for row in rows])
        folder.note_passes()
        if left and (estimate := self.player.estimate(self.tasks)):
            say(estimate)
        for seed in left:
            phases.report("evaluating", f"pass {seed + 1} of {self.config.evaluation.seeds}")
            made = self.player.play(self.tasks, seed)
            if seed == 0:
                folder.write_transcripts(made.transcripts)
            missing.update(made.missing)
            whole[seed] = [{"update": 0, **row} for row in made.rows]
            folder.append("episodes", *whole[seed])
            folder.note_passes()
        folder.rewrite("episodes", [row for seed in sorted(whole) for row in whole[seed]])
        return missing
