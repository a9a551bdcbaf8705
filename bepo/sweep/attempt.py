"""A trial of an Optuna study that this process is working on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import optuna

from bepo.runs.objectives import values_of
from bepo.store.locks import FileLock
from bepo.store.run_files import read_run
from bepo.sweep.plan import PlannedRun


@dataclass
class Attempt:
    """A trial that this process is working on. Its lock tells other processes so, and ends with this process."""

    trial: optuna.Trial
    lock: FileLock
    runs: list[PlannedRun]  # one for each training seed
    n_reported: int = 0  # values that were reported to the pruner
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

    def report(self, metric: str) -> bool:
        """Report new values of a logged metric to the pruner. Return whether there were any."""
        means = means_so_far(self.runs, metric)
        has_news = len(means) > self.n_reported
        for step in range(self.n_reported, len(means)):
            self.trial.report(means[step], step)
            self.n_reported = step + 1
        return has_news


def means_so_far(runs: Sequence[PlannedRun], metric: str) -> list[float]:
    """Return the values that the pruner sees: one per logged value, first all of the first seed, and so on.

    Each is the mean of the logged value and the last value of every earlier seed. A seed that has not made all its
    updates ends the list.
    """
    means: list[float] = []
    finals: list[float] = []
    for run in runs:
        rows = run.folder.rows("metrics")
        curve = [row[metric] for row in rows if row.get(metric) is not None]
        means += [(sum(finals) + value) / (len(finals) + 1) for value in curve]
        if not curve or rows[-1]["update"] < run.config.updates:
            break
        finals.append(curve[-1])
    return means
