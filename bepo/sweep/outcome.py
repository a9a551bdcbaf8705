"""The outcome of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field

from bepo.sweep.plan import PlannedRun


@dataclass
class GridOutcome:
    """The outcome of grids."""

    complete: list[PlannedRun] = field(default_factory=list)
    elsewhere: list[PlannedRun] = field(default_factory=list)  # complete runs that other processes trained
    failed: dict[str, str] = field(default_factory=dict)  # reason by run ID; the log of the run has details
    refused: dict[str, str] = field(default_factory=dict)  # by run ID, why the run was not started
    interrupted: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether a run failed or could not be started."""
        return bool(self.failed or self.refused)


@dataclass
class TuningOutcome:
    """The outcome of an Optuna study."""

    failed: list[str] = field(default_factory=list)  # a line for each failed trial
    interrupted: bool = False

    @property
    def is_bad(self) -> bool:
        """Whether a trial or the whole study failed."""
        return bool(self.failed)
