"""``python -m bepo.diagnose RUN ...``: is a run healthy, and why does it learn or not?

RUN is a run folder, an archive, the beginning of a run ID, or a study. Prints alarms (thresholds: ``health.*``), how
metrics moved, success by task type, seconds by stage, and the terms of the advantage in the last stored rollouts. With
several runs it prints a line for each. ``python -m bepo.view RUN`` shows the same run as a page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import pandas as pd

from bepo.core.errors import Parser, UserError, exit_code, path_of
from bepo.runs.health import alarms_of
from bepo.store.find import DEFAULT, each_readable, existing, find_runs
from bepo.store.run_files import StoredRun


def main(arguments: list[str] | None = None) -> int:
    """Print the diagnosis. Return 0, 1 if a run raises an alarm, or 2 for bad input."""
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="python -m bepo.diagnose", description=__doc__, formatter_class=form)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="what to diagnose")
    parser.add_argument("--results", type=path_of, default=DEFAULT, help="results folder (default: results)")
    parser.add_argument("--tier", help="only runs of a study at this tier")
    options = parser.parse_intermixed_args(arguments)
    return exit_code(lambda: _diagnose(options))


def _diagnose(options: argparse.Namespace) -> int:
    existing(options.results)
    stored = [run for name in options.runs for run in find_runs(name, options.results, options.tier)]
    runs = list({run.path: run for run in stored}.values())
    if not runs:
        raise UserError(f"{' '.join(options.runs)}: no run")
    from bepo.explore.diagnosis import signals

    read = list(each_readable(runs, lambda run: (signals(run), alarms_of(run))))
    for line in _of_one(runs[0]) if len(runs) == 1 else _of_many(read):
        print(line)
    return int(any(alarms for _, (_, alarms) in read))


def _of_many(read: list[tuple[StoredRun, tuple[pd.DataFrame, list[str]]]]) -> Iterator[str]:
    from bepo.explore.index import names_of

    names = names_of([run for run, _ in read])
    width = max(map(len, names))
    for (run, (table, alarms)), name in zip(read, names):
        rates = table.loc["success"] if "success" in table.index else None
        moved = f"{rates['first fifth']:.3f} -> {rates['last fifth']:.3f}" if rates is not None else "no updates"
        yield f"{run.id}  {name:{width}} training success {moved}  {'; '.join(alarms) or 'healthy'}"


def _of_one(run: StoredRun) -> Iterator[str]:
    from bepo.explore import diagnosis

    alarms = alarms_of(run)
    yield f"run {run.id}: {len(alarms)} alarms" if alarms else f"run {run.id}: no alarm"
    yield from (f"ALARM {alarm}" for alarm in alarms)
    yield from _table("Metrics, means over updates", diagnosis.signals(run))
    yield from _table("Success on the test tasks", diagnosis.by_type(run))
    yield from _table("Cost by stage", diagnosis.cost(run))
    try:
        update, terms = diagnosis.newest_terms(run)
    except UserError as problem:
        yield f"\n{problem}"
        return
    yield from _table(f"Terms of the advantage, update {update}", diagnosis.spreads(terms))
    if (calibrated := diagnosis.calibration(terms)) is not None:
        yield from _table(f"Values against realised returns, update {update}", calibrated)


def _table(title: str, table: pd.DataFrame) -> Iterator[str]:
    if not table.empty:
        yield f"\n{title}\n{table.to_string(float_format=lambda x: f'{x:.3g}')}"


if __name__ == "__main__":
    sys.exit(main())
