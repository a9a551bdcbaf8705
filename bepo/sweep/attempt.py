"""A trial of an Optuna study while a process works on it."""

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
    """A trial that this process works on. The lock says so to other processes, and dies with this one."""

    trial: optuna.Trial
    lock: FileLock
    runs: list[PlannedRun]  # one for each training seed
    pending: list[PlannedRun]  # those that no worker of this process has begun
    resume_at: float = 0.0  # when to start the next of them, if another process works on one
    n_reported: int = 0  # validation passes that the pruner knows
    failure: str = ""
    is_pruned: bool = False

    @property
    def label(self) -> str:
        """The trial's name in what is shown."""
        return f"trial {self.trial.number}"

    @property
    def is_complete(self) -> bool:
        """Whether every training seed is complete."""
        return all(run.progress().status == "complete" for run in self.runs)

    def values(self, objectives: Sequence[str]) -> list[float]:
        """Read the objectives of a complete trial: means over its training seeds. Raises ``Corrupt``."""
        return values_of(objectives, [read_run(run.folder.path) for run in self.runs])

    def report(self) -> bool:
        """Report the validation passes that the pruner does not know yet; return whether there were any."""
        means = means_of_passes(self.runs)
        has_news = len(means) > self.n_reported
        for step in range(self.n_reported, len(means)):
            self.trial.report(means[step], step)
            self.n_reported = step + 1
        return has_news


def means_of_passes(runs: Sequence[PlannedRun]) -> list[float]:
    """Return a validation success for every pass, seeds one after the other: the mean of the seeds that got so far.

    A seed counts only after all passes of the seeds before it, which count with their last pass.
    """
    means: list[float] = []
    finals: list[float] = []
    for run in runs:
        curve = [r["eval/validation_success"] for r in run.folder.rows("metrics") if "eval/validation_success" in r]
        n_passes = run.config.updates // run.config.evaluation.every if run.config.evaluation.every else 0
        means += [(sum(finals) + value) / (len(finals) + 1) for value in curve]
        if len(curve) < n_passes or not curve:
            break
        finals.append(curve[-1])
    return means
