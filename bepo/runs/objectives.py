"""What an Optuna study optimises, read from the runs of a trial's training seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from bepo.core.errors import choose
from bepo.runs.metrics import seconds_of_updates, success_rate
from bepo.store.stored import StoredRun


def validation_success(run: StoredRun) -> float:
    """Return the success rate of the last validation pass; test tasks are not for choosing settings."""
    return success_rate(run.episodes(), "validation", run.facts["result"]["updates"])


def training_seconds(run: StoredRun) -> float:
    """Return the seconds of all updates without evaluation: CPU seconds of a run on a CPU, else those of the clock."""
    return seconds_of_updates(run.metrics(), run.clock, evaluation=False)


VALIDATION_SUCCESS = "validation_success"
OBJECTIVES: dict[str, Callable[[StoredRun], float]] = {
    VALIDATION_SUCCESS: validation_success,
    "training_seconds": training_seconds,
}


def values_of(names: Sequence[str], runs: Sequence[StoredRun]) -> list[float]:
    """Return each objective, averaged over the runs. Raises ``UserError`` for an unknown one."""
    for name in names:
        if name not in OBJECTIVES:
            raise choose("objective", name, OBJECTIVES)
    return [fmean(OBJECTIVES[name](run) for run in runs) for name in names if runs]
