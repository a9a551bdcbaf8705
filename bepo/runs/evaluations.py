"""Evaluations during training: when passes are made, and where their episodes are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from bepo.core.phases import report
from bepo.core.settings import identity
from bepo.envs import Split
from bepo.rollouts.task_sets import TaskSet
from bepo.runs.config import METHOD_VERSION, Config
from bepo.runs.metrics import success_rate
from bepo.runs.players import EnginePlayer
from bepo.store.files import digest, with_hint
from bepo.store.json_files import check_made_for, read_sealed, write_sealed
from bepo.store.locks import locked
from bepo.store.runs import RunFolder
from bepo.training.backends import Engine, Setup
from bepo.training.starting_policy import starting_policy_of

HELD_OUT: tuple[Split, ...] = ("validation", "test")


class Evaluations:
    """The evaluation passes of a run; their episodes are in ``episodes.jsonl``.

    Before the first and after the last update there are ``evaluation.seeds`` passes over the tasks of each held-out
    split. After the updates that ``evaluation.every`` and ``evaluation.late_passes`` name there is one pass over each.
    """

    def __init__(self, config: Config, setup: Setup, folder: RunFolder, engine: Engine) -> None:
        self._config, self._setup, self._folder = config, setup, folder
        self._player = EnginePlayer(engine, config.evaluation.sampling, config.env.horizon)

    def is_due(self, update: int) -> bool:
        """Return whether there are passes after this update."""
        return self._config.evaluation.is_due(update, self._config.updates)

    def first(self) -> None:
        """Record the passes of the initial policy. Runs that start from the same policy share them."""
        for split in HELD_OUT:
            for seed in range(self._config.evaluation.seeds):
                self._report("before training", split, seed)
                self._note(0, self._shared(split, seed))

    def while_training(self, update: int) -> dict[str, float]:
        """Make the passes after an update, and return success rates for the update's row."""
        rates = {}
        for split in HELD_OUT:
            rows = self._pass(split, 0, update)
            self._note(update, rows)
            rates[f"eval/{split}_success"] = fmean(row["success"] for row in rows)
        return rates

    def last(self, update: int) -> float:
        """Make the remaining passes of the last policy, and return its success rate on the test tasks."""
        for split in HELD_OUT:
            for seed in range(int(self.is_due(update)), self._config.evaluation.seeds):
                self._report("after training", split, seed)
                self._note(update, self._pass(split, seed, update))
        return success_rate(self._folder.rows("episodes"), "test", update)

    def _report(self, when: str, split: Split, seed: int) -> None:
        report(f"evaluating {when}", f"{split} tasks, pass {seed + 1} of {self._config.evaluation.seeds}")

    def _pass(self, split: Split, seed: int, update: int) -> list[dict[str, Any]]:
        """Play one episode of each task, and keep transcripts of the last policy's first test pass."""
        made = self._player.play(self._setup.task_sets[split], seed)
        if split == "test" and seed == 0 and update == self._config.updates:
            self._folder.write_transcripts(made.transcripts)
        return made.rows

    def _note(self, update: int, rows: Sequence[dict[str, Any]]) -> None:
        self._folder.append("episodes", *({"update": update, **row} for row in rows))

    def _shared(self, split: Split, seed: int) -> list[dict[str, Any]]:
        """Return a pass of the initial policy, from the results folder if another run has made it."""
        settings = self._settings_of_pass(self._setup.task_sets[split], seed)
        name = f"{self._config.env.name}-{split}-{seed}-{digest(json.dumps(settings, sort_keys=True), 12)}"
        path = Path(self._config.results) / "first_evaluations" / f"{name}.json"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                write_sealed(path, {**settings, "rows": self._pass(split, seed, 0)})
        with with_hint("remove the file, it will be made again"):
            made_for = read_sealed(path, "evaluation of a first policy")
            rows = made_for.pop("rows", [])
            check_made_for(path, made_for, settings)
        return rows

    def _settings_of_pass(self, tasks: TaskSet, seed: int) -> dict[str, Any]:
        """Return everything that determines the rows of a pass of the initial policy."""
        return {
            "start": starting_policy_of(self._setup),
            "backend": identity(self._config.backend),
            "sampling": asdict(self._config.evaluation.sampling),
            "task_set": tasks.digest,
            "evaluation_seed": seed,
            "method_version": METHOD_VERSION,
        }
