"""Evaluations of a run: which passes are due when, and where their episodes are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from bepo.core.phases import report
from bepo.core.settings import identity
from bepo.envs import Split
from bepo.rollouts.evaluation import episode_rows, play
from bepo.rollouts.task_sets import TaskSet
from bepo.rollouts.transcripts import transcripts
from bepo.runs.config import METHOD_VERSION, Config
from bepo.runs.metrics import success_rate
from bepo.store.files import check_made_for, digest, locked, read_sealed, remedied, write_sealed
from bepo.store.runs import RunFolder
from bepo.training.backends import Engine, Setup, collect_and_release
from bepo.training.starting_policy import starting_policy_of

HELD_OUT: tuple[Split, ...] = ("validation", "test")


class Evaluations:
    """The evaluation passes of a run, which ``episodes.jsonl`` keeps.

    Before the first and after the last update, there are ``evaluation.seeds`` passes over the tasks of each held-out
    split; every ``evaluation.every`` updates, there is one of each.
    """

    def __init__(self, config: Config, setup: Setup, folder: RunFolder, engine: Engine) -> None:
        self._config, self._setup, self._folder, self._engine = config, setup, folder, engine

    def is_due(self, update: int) -> bool:
        """Return whether passes are made after this update because of ``evaluation.every``."""
        every = self._config.evaluation.every
        return every > 0 and update % every == 0

    def first(self) -> None:
        """Note the passes of the policy that training starts from; runs that start from the same one share them."""
        for split in HELD_OUT:
            for seed in range(self._config.evaluation.seeds):
                self._report("before training", split, seed)
                self._note(0, self._shared(split, seed))

    def while_training(self, update: int) -> dict[str, float]:
        """Make the passes that are due after an update, and return success rates for its row."""
        found = {}
        for split in HELD_OUT:
            rows = self._pass(split, 0, update)
            self._note(update, rows)
            found[f"eval/{split}_success"] = fmean(row["success"] for row in rows)
        return found

    def last(self, update: int) -> float:
        """Make the passes of the last policy that are not made yet, and return its success rate on the test tasks."""
        for split in HELD_OUT:
            for seed in range(int(self.is_due(update)), self._config.evaluation.seeds):
                self._report("after training", split, seed)
                self._note(update, self._pass(split, seed, update))
        return success_rate(self._folder.rows("episodes"), "test", update)

    def _report(self, when: str, split: Split, seed: int) -> None:
        report(f"evaluating {when}", f"{split} tasks, pass {seed + 1} of {self._config.evaluation.seeds}")

    def _pass(self, split: Split, seed: int, update: int) -> list[dict[str, Any]]:
        """Play one episode of each task, and keep their transcripts if they are the ones that are kept."""
        tasks = self._setup.task_sets[split]
        collect = partial(collect_and_release, self._engine)
        batch = play(collect, tasks, seed, self._config.evaluation.sampling)
        rows = episode_rows(batch, tasks, seed, self._config.env.horizon)
        if split == "test" and seed == 0 and update == self._config.updates:
            self._folder.write_transcripts(transcripts(batch, rows, self._engine.decode))
        return rows

    def _note(self, update: int, rows: Sequence[dict[str, Any]]) -> None:
        self._folder.append("episodes", *({"update": update, **row} for row in rows))

    def _shared(self, split: Split, seed: int) -> list[dict[str, Any]]:
        """Return a pass of the first policy, from the results folder if another run made it."""
        facts = self._facts(self._setup.task_sets[split], seed)
        name = f"{self._config.env.name}-{split}-{seed}-{digest(json.dumps(facts, sort_keys=True), 12)}"
        path = Path(self._config.results) / "first_evaluations" / f"{name}.json"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                write_sealed(path, {**facts, "rows": self._pass(split, seed, 0)})
        with remedied("remove the file to make it anew"):
            made_for = read_sealed(path, "evaluation of a first policy")
            rows = made_for.pop("rows", [])
            check_made_for(path, made_for, facts)
        return rows

    def _facts(self, tasks: TaskSet, seed: int) -> dict[str, Any]:
        """Return all that decides the rows of a pass of the first policy."""
        return {
            "start": starting_policy_of(self._setup),
            "backend": identity(self._config.backend),
            "sampling": asdict(self._config.evaluation.sampling),
            "task_set": tasks.digest,
            "evaluation_seed": seed,
            "method_version": METHOD_VERSION,
        }
