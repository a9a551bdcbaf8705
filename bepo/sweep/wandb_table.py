"""The ledger of a sweep for W&B: a row for each cell of a grid, and for each training seed of an Optuna trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna

from bepo.runs.metrics import seconds_of_updates
from bepo.store.run_files import success_of
from bepo.store.runs import RunFolder
from bepo.store.tracking import Labels, Tracking
from bepo.store.tracking.wandb import log_table
from bepo.sweep.outcome import GridOutcome
from bepo.sweep.plan import PlannedRun
from bepo.sweep.studies import PlannedStudy
from bepo.sweep.trials import RUNS, format_params

COLUMNS = ("study", "cell", "status", "run", "success", "seconds", "cpu_seconds", "problem")


def grid_rows(runs: Sequence[PlannedRun], outcome: GridOutcome) -> list[list[Any]]:
    """Return a row for each cell. Cells that share a run have the same run ID."""
    problems = outcome.refused | outcome.failed
    return [_row(cell.study, cell.label, run.folder, problems.get(run.id, "")) for run in runs for cell in run.cells]


def trial_rows(planned: PlannedStudy, study: optuna.Study) -> list[list[Any]]:
    """Return a row for each run of each trial. The runs of a pruned or failed trial have this as their problem."""
    results, rows = Path(planned.config.results), []
    for trial in study.get_trials(deepcopy=False):
        text = f"trial {trial.number}: {format_params(trial.params)}"
        problem = "" if trial.state.name == "COMPLETE" else f"trial {trial.state.name.lower()}"
        for seed, run in zip(planned.seeds, trial.user_attrs.get(RUNS, [])):
            row = _row(planned.name, f"{text} seed={seed}", RunFolder(results, run), problem)
            row[COLUMNS.index("success")] = None  # of test tasks, by which trials must not be ranked
            rows.append(row)
    return rows


def _row(study: str, cell: str, folder: RunFolder, problem: str) -> list[Any]:
    """Return a row in the order of ``COLUMNS``. Success is None for an incomplete run."""
    progress = folder.progress()
    seconds = [seconds_of_updates(folder.rows("metrics"), clock) for clock in ("time/", "cpu/")]
    success = progress.run and success_of(progress.run.metadata["result"])
    return [study, cell, progress.status, folder.id, success, *seconds, problem or progress.problem]


def upload_ledger(studies: Sequence[PlannedStudy], rows: Sequence[Sequence[Any]]) -> None:
    """Upload the ledger to W&B. Its group is the study, or the tier for several studies.

    Raises ``UserError`` if W&B does not start.
    """
    config, names = studies[0].config, [study.name for study in studies]
    tracking = Tracking(**{str(name): value for name, value in config.tracking.items()})
    complete = sum(row[COLUMNS.index("status")] == "complete" for row in rows)
    labels = Labels(
        name=f"sweep {' '.join(names)} {config.tier}",
        group=names[0] if len(names) == 1 else config.tier,
        job_type="sweep",
        tags=(config.tier, *names),
        config={"tier": config.tier, "studies": names, "cells": len(rows), "complete": complete},
    )
    log_table(tracking, Path(config.results), labels, "ledger", COLUMNS, rows)
