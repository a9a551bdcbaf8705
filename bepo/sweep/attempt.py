"""A trial of an Optuna study that this process is working on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import optuna

from bepo.runs.objectives import values_of
from bepo.store.files import FileLock
from bepo.store.run_files import read_run
from bepo.sweep.plan import PlannedRun


@dataclass
class Attempt:
    """A trial that this process is working on. Its lock tells other processes so, and ends with this process."""

    trial: optuna.Trial
    lock: FileLock
    runs: list[PlannedRun]  # one for each training seed
    pending: list[PlannedRun]  # runs that this process has not started
    resume_at: float = 0.0  # when to start the next run, after another process was working on one
    n_reported: int = 0  # validation passes that were reported to the pruner
    failure: str = ""
    is_pruned: bool = False

    @property
    def label(self) -> str:
        """The name of the trial in printed lines."""
        return f"trial {self.trial.number}"

    @property
    def is_complete(self) -> bool:
        """Whether the runs of all training seeds are complete."""
        return all(run.progress().status == "complete" for run in self.runs)

    def values(self, objectives: Sequence[str]) -> list[float]:
        """Read the objectives of a complete trial: means over its training seeds. Raises ``Corrupt``."""
        return values_of(objectives, [read_run(run.folder.path) for run in self.runs])

    def report(self) -> bool:
        """Report new validation passes to the pruner. Return whether there were any."""
        means = means_of_passes(self.runs)
        has_news = len(means) > self.n_reported
        for step in range(self.n_reported, len(means)):
            self.trial.report(means[step], step)
            self.n_reported = step + 1
        return has_news


def means_of_passes(runs: Sequence[PlannedRun]) -> list[float]:
    """Return the values that the pruner sees: one per validation pass, first all passes of the first seed, and so on.

    The value of a pass is the mean of its success and the last success of every earlier seed.
    """
    means: list[float] = []
    finals: list[float] = []
    for run in runs:
        curve = [r["eval/validation_success"] for r in run.folder.rows("metrics") if "eval/validation_success" in r]
        updates = run.config.updates
        n_passes = sum(run.config.evaluation.is_due(update, updates) for update in range(1, updates + 1))
        means += [(sum(finals) + value) / (len(finals) + 1) for value in curve]
        if len(curve) < n_passes or not curve:
            break
        finals.append(curve[-1])
    return means
