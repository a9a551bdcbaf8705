"""Plan and run studies: ``python -m bepo.sweep [NAME ...] [scale=... any override] [--dry-run]``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile

from bepo.config import register_configs
from bepo.errors import UserError
from bepo.sweep import plan, show, trials, tune
from bepo.sweep.estimate import Throughput
from bepo.sweep.execute import Execution
from bepo.sweep.pool import Pool

register_configs()


def main(arguments: list[str] | None = None) -> int:
    """0: everything complete; 1: something failed; 2: bad input; 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m bepo.sweep", description=__doc__)
    parser.add_argument(
        "items",
        nargs="*",
        metavar="NAME | OVERRIDE",
        help="studies (default: all but tune_*; `all`: those too), overrides",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the cells and what they would cost, run nothing")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: one a core; paper: one)")
    options = parser.parse_intermixed_args(arguments)
    try:
        return _sweep(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # while planning: nothing was begun
        return 130


def _sweep(options: argparse.Namespace) -> int:
    began = time.monotonic()
    overrides = [item for item in options.items if "=" in item or item.startswith("~")]
    chosen = [item for item in options.items if item not in overrides]
    if not chosen:
        chosen = [n for n in plan.names() if not n.startswith("tune_")]
    elif chosen == ["all"]:
        chosen = plan.names()
    studies, broken = _studies(chosen, overrides)
    grids, tunings = [s for s in studies if not s.is_tuning], [s for s in studies if s.is_tuning]
    runs = plan.runs(grids)
    jobs = _jobs(options.jobs, studies)
    results = Path(studies[0].config.results)
    throughput = Throughput(results)
    states = {run.id: run.progress() for run in runs}
    if grids:
        print(show.plan(runs, states, throughput, jobs, cells=options.dry_run), flush=True)
    tunings = [study for study in tunings if _announced(study, throughput, jobs, broken)]
    if options.dry_run:
        return 1 if broken or any(state.status == "corrupt" for state in states.values()) else 0
    _check_writable(results)
    pool = Pool(jobs)
    failed, interrupted = bool(broken), False
    if grids:
        outcome = Execution(runs, pool, show.View(throughput, jobs, len(runs))).finish()
        print(show.summary(outcome, runs, time.monotonic() - began), flush=True)
        failed, interrupted = failed or outcome.is_bad, outcome.interrupted
    for study in tunings:
        if not interrupted:
            tuned = _tuned(study, pool, throughput)
            failed, interrupted = failed or bool(tuned.failed), tuned.interrupted
    for error in broken:
        print(f"FAILED  {error}")
    return 130 if interrupted else 1 if failed else 0


def _announced(study: plan.Study, throughput: Throughput, jobs: int, broken: list[UserError]) -> bool:
    """Show where an Optuna study stands; whether anything of it is left to do. Adds to ``broken`` if it cannot be."""
    try:
        with plan.errors_named(study.name, study.overrides):
            found = trials.stored(study)
            left = trials.left(study, found, throughput)
    except UserError as error:
        broken.append(error)
        print(f"error: {error}", file=sys.stderr)
        return False
    to_do = show.time_left(left, jobs) if left else "nothing to do"
    print(f"{trials.standing(study, found)}\n  {to_do}", flush=True)
    return bool(left)


def _tuned(study: plan.Study, pool: Pool, throughput: Throughput) -> tune.Outcome:
    total = study.config.hydra.sweeper.n_trials * len(study.config.study.seeds)
    try:
        outcome = tune.Tuning(study, pool, show.View(throughput, pool.size, total)).finish()
    except UserError as error:
        outcome = tune.Outcome([f"{study.name}: {error}"])
    for line in outcome.failed:
        print(f"FAILED  {line}", flush=True)
    return outcome


def _check_writable(results: Path) -> None:
    try:
        results.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=results).close()
    except OSError as error:
        raise UserError(f"results={results}: cannot be written ({error.strerror})") from error


def _studies(names: list[str], overrides: list[str]) -> tuple[list[plan.Study], list[UserError]]:
    """The studies that compose, and what is wrong with the others. Raises the error if none does."""
    found, errors = [], []
    for name in dict.fromkeys(names):
        try:
            study = plan.study(name, overrides)
            _ = study.is_tuning or study.configured
            found.append(study)
        except UserError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return found, errors


def _jobs(asked: int | None, studies: list[plan.Study]) -> int:
    if asked is not None:
        if asked < 1:
            raise UserError(f"--jobs {asked}: at least 1")
        return asked
    wanted = min(study.jobs for study in studies)
    threads = max(study.config.backend.get("threads", 1) for study in studies)
    cores = len(os.sched_getaffinity(0)) // threads
    return max(1, min(cores, wanted) if wanted > 0 else cores)


if __name__ == "__main__":
    sys.exit(main())
