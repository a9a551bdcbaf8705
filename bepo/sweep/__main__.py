"""Plan and run studies: ``python -m bepo.sweep [NAME ...] [tier=... any override] [--dry-run]``."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from joblib import cpu_count

from bepo.core.errors import Parser, UserError, exit_code, say
from bepo.runs.command import results_as_override
from bepo.runs.compose import register, register_configs
from bepo.store.find import make_writable
from bepo.store.published import PUBLISHED
from bepo.store.run_files import refuse_older
from bepo.store.source import SOURCE
from bepo.sweep.check import check_tuning
from bepo.sweep.estimate import Throughput
from bepo.sweep.grid import Grid
from bepo.sweep.outcome import GridOutcome, TuningOutcome
from bepo.sweep.plan import PlannedRun, note_cells, plan_runs
from bepo.sweep.pool import Pool
from bepo.sweep.ray_pool import RayPool
from bepo.sweep.show import Brief, View, failures, format_duration, format_plan, format_summary, format_time
from bepo.sweep.studies import PlannedStudy, compose_study, config_errors, format_studies, studies_of_paper
from bepo.sweep.trials import find_study, format_status, time_estimates
from bepo.sweep.tune import Tuning
from bepo.sweep.wandb_table import grid_rows, trial_rows, upload_ledger

register_configs()
_MOST_JOBS = 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 if everything is complete, 1 after a failure, 2 for bad input, 130 after Ctrl-C."""
    parser = Parser(prog="python -m bepo.sweep", description=__doc__)
    parser.add_argument(
        "items",
        nargs="*",
        metavar="NAME | OVERRIDE",
        help="studies, and overrides; `all`: the studies of the paper; none: list the studies, or with --dry-run plan "
        "those of the paper except tune_*",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the cells and their cost, train nothing")
    parser.add_argument("--retrain", action="store_true", help="also train runs that are in paper/runs")
    parser.add_argument("--brief", action="store_true", help="one line: how many runs are complete, how many failed")
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N", help="only every N-th run of the grids, from the I-th on"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: one per core; paper: one)")
    parser.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster: auto, HOST:6379, ray://HOST:10001")
    options = parser.parse_intermixed_args(results_as_override(sys.argv[1:] if arguments is None else arguments))
    try:
        return exit_code(lambda: _sweep(options))
    except KeyboardInterrupt:  # during planning
        return 130


def _shard(text: str) -> slice:
    """Return the runs of ``2/8`` as a slice of the plan: the second of every eight."""
    first, _, number = text.partition("/")
    if not (first.isdecimal() and number.isdecimal() and 1 <= int(first) <= int(number)):
        raise ArgumentTypeError(f"{text!r:.40}: write I/N with I from 1 to N, such as 2/8")
    return slice(int(first) - 1, None, int(number))


def _sweep(options: Namespace) -> int:
    began = time.monotonic()
    overrides = [item for item in options.items if "=" in item or item.startswith("~")]
    names = [item for item in options.items if item not in overrides]
    if not names and not options.dry_run:
        say(f"{format_studies()}\n\nNo study is named, so nothing is trained. `all` names those of the paper.")
        return 2
    studies, errors = _compose(names, overrides)
    grids = [study for study in studies if not study.is_tuning]
    runs, jobs, results = plan_runs(grids), _jobs(options.jobs, studies), Path(studies[0].config.results)
    runs = runs[options.shard] if options.shard else runs
    if options.ray:
        runs = [replace(run, obstacle=None) for run in runs]  # of this machine, on which nothing is trained
    refuse_older(results)
    published = [] if options.retrain else [run for run in runs if run.is_published]
    if published:
        runs = [run for run in runs if not run.is_published]
        say(f"{len(published)} runs are published ({PUBLISHED}) and are not trained again; --retrain trains them")
    throughput = Throughput(results)
    states = {run.id: run.progress(hashed=False) for run in runs}
    if grids and not options.brief:
        say(format_plan(runs, states, throughput, jobs, cells=options.dry_run))
    totals = {s.name: _announce(s, throughput, jobs, errors, options.brief) for s in studies if s.is_tuning}
    tunings = [study for study in studies if totals.get(study.name)]
    if errors and not grids and not tunings:
        return 2
    if options.dry_run:
        return 1 if errors or any(state.status == "corrupt" for state in states.values()) else 0
    make_writable(results)
    if SOURCE["dirty"] and any(study.config.tier != "smoke" for study in studies):
        print("The sources have uncommitted changes: bepo.publish will refuse these runs.", file=sys.stderr)
    for run in published:
        note_cells(run)
    pool = RayPool(options.ray, runs, options.jobs) if options.ray else Pool(jobs)
    brief = Brief(throughput, pool.size, len(runs) + sum(totals.values())) if options.brief else None
    views = [brief or View(throughput, pool.size, totals[study.name], hides_test=True) for study in tunings]
    opened = [search for study, view in zip(tunings, views) if (search := _open(study, pool, view, errors))]
    if errors and not grids and not opened:
        return 2
    outcomes: list[GridOutcome | TuningOutcome] = []
    if grids:
        outcome = Grid(runs, pool, brief or View(throughput, pool.size, len(runs))).finish()
        outcomes.append(outcome)
        summary = [format_summary(outcome, runs, time.monotonic() - began)]
        say("".join(f"{line}\n" for line in (failures(outcome, runs) if brief else summary)), end="")
    for tuning in opened:
        if not any(outcome.interrupted for outcome in outcomes):
            outcomes.append(_tune(tuning))
    for error in errors:
        say(f"FAILED  {error}")
    if brief:
        took = format_duration(time.monotonic() - began)
        whole = not errors and not any(outcome.interrupted or outcome.is_bad for outcome in outcomes)
        spare = brief.total - brief.n_complete if whole else 0
        told = f" ({spare} were not needed: trials shared a run or were pruned)" if spare else ""
        say(f"{brief.n_complete} of {brief.total} runs complete{told}, {brief.n_failed} failed, {took}")
    if any(outcome.interrupted for outcome in outcomes):
        return 130
    _upload_ledger(studies, runs, outcomes)
    return 1 if errors or any(outcome.is_bad for outcome in outcomes) else 0


def _compose(names: Sequence[str], overrides: Sequence[str]) -> tuple[list[PlannedStudy], list[UserError]]:
    """Return the valid studies, and the errors of the others. Raises the first error if all have errors."""
    if not names:
        names = [name for name in studies_of_paper() if not name.startswith("tune_")]
    if launchers := [text for text in overrides if text.lstrip("+").startswith("hydra/launcher")]:
        raise UserError(
            f"{launchers[0]}: bepo.sweep starts the runs itself; start it in each task of a Slurm array job "
            f"(docs/machines.md), or use the launcher with python -m bepo.train -cd experiments -cn {names[0]}"
        )
    names = [study for name in names for study in (studies_of_paper() if name == "all" else [name])]
    register(overrides)
    studies, errors = [], []
    for name in dict.fromkeys(names):
        try:
            study = compose_study(name, overrides)
            if study.is_tuning:
                with config_errors(name, overrides):
                    check_tuning(study)
            else:
                _ = study.configured  # check that its cells compose
            studies.append(study)
        except UserError as error:
            errors.append(error)
    if not studies:
        raise errors[0]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return studies, errors


def _jobs(asked: int | None, studies: Sequence[PlannedStudy]) -> int:
    """Return the number of runs at a time: as asked, or else as many as launchers and cores allow."""
    if asked is not None:
        if not 1 <= asked <= _MOST_JOBS:
            raise UserError(f"--jobs {asked}: must be at least 1 and at most {_MOST_JOBS}")
        return asked
    of_launchers = min(study.jobs for study in studies)
    threads = max(study.config.backend.get("threads", 1) for study in studies)
    cores = cpu_count() // threads  # joblib counts the cores that this process may use
    return max(1, min(cores, of_launchers) if of_launchers > 0 else cores)


def _announce(planned: PlannedStudy, throughput: Throughput, jobs: int, errors: list[UserError], brief: bool) -> int:
    """Print the progress of an Optuna study unless ``brief``. Return the number of runs that its next trials have.

    Append to ``errors`` on failure.
    """
    try:
        with config_errors(planned.name, planned.overrides):
            study = find_study(planned)
            estimates = time_estimates(planned, study, throughput)
    except UserError as error:
        errors.append(error)
        print(f"error: {error}", file=sys.stderr)
        return 0
    to_do = format_time(estimates, jobs) if estimates else "nothing to do"
    if not brief:
        say(f"{format_status(planned, study)}\n  {to_do}")
    return len(estimates)


def _upload_ledger(
    studies: Sequence[PlannedStudy], runs: Sequence[PlannedRun], outcomes: Sequence[GridOutcome | TuningOutcome]
) -> None:
    """Upload the ledger to W&B. A failed upload is one line: the runs are complete without it."""
    grids = [outcome for outcome in outcomes if isinstance(outcome, GridOutcome)]
    rows = [row for outcome in grids for row in grid_rows(runs, outcome)]
    try:
        for planned in studies:
            if planned.is_tuning and (study := find_study(planned)):
                rows += trial_rows(planned, study)
        upload_ledger(studies, rows)
    except UserError as error:
        print(error, file=sys.stderr)


def _open(planned: PlannedStudy, pool: Pool, view: View, errors: list[UserError]) -> Tuning | None:
    """Open the database of an Optuna study before anything is trained. Append to ``errors`` on failure."""
    try:
        return Tuning(planned, pool, view)
    except UserError as error:
        errors.append(UserError(f"{planned.name}: {error}"))
        print(f"error: {errors[-1]}", file=sys.stderr)
        return None


def _tune(tuning: Tuning) -> TuningOutcome:
    """Run the missing trials of an Optuna study, and print the failures."""
    try:
        outcome = tuning.finish()
    except UserError as error:
        outcome = TuningOutcome([f"{tuning.planned.name}: {error}"])
    for line in outcome.failed:
        say(f"FAILED  {line}")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
