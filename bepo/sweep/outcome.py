"""What became of the runs and trials of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field

from bepo.sweep.plan import PlannedRun


@dataclass
class GridOutcome:
    """What became of the runs of grids."""

    complete: list[PlannedRun] = field(default_factory=list)
    elsewhere: list[PlannedRun] = field(default_factory=list)  # those of the complete ones that other processes trained
    failed: dict[str, str] = field(default_factory=dict)  # by run id, the reason; the run's log says more
    refused: dict[str, str] = field(default_factory=dict)  # by run id, why the run was never begun
    interrupted: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether a run failed or could not be begun."""
        return bool(self.failed or self.refused)


@dataclass
class TuningOutcome:
    """What became of the trials of an Optuna study."""

    failed: list[str] = field(default_factory=list)  # a line for each failed trial
    interrupted: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether a trial failed, or the study itself."""
        return bool(self.failed)
