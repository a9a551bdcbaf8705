"""``python -m bepo.verify [RUN ...]``: train published runs again, and compare every number.

On the same kind of CPU, with the same versions, all numbers but times are equal bit for bit. Elsewhere the first update
agrees within 1e-4, and the end lies in the 99 % prediction interval of the same setting's other seeds, if they are four
or more.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from bepo.core.errors import Parser, UserError, choose, exit_code, nearest, path_of
from bepo.publish import stale
from bepo.runs.compare import differences, differences_of_first_update, prediction_interval, same_kind
from bepo.runs.compose import config_of
from bepo.runs.config import TIERS, identity_of
from bepo.runs.evaluation_run import evaluate
from bepo.runs.run import run
from bepo.store.find import beginning_with
from bepo.store.published import PUBLISHED, WARM_STARTS, PublishedRuns
from bepo.store.run_files import StoredRun, read_run
from bepo.store.runs import run_id
from bepo.store.tracking import Tracking

_SHOWN = 10
_LEAST_SEEDS = 4
"""An interval from fewer seeds is wider than all success rates that there are."""


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m bepo.verify", description=(__doc__ or "").partition("\n\n")[2])
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="ids of published runs or their beginnings (default: a random one)")
    add("--updates", type=int, metavar="N", help="stop after N updates, and compare these")
    only = "compare the published run only where it is of this kind of machine"
    add("--twice", action="store_true", help=f"train twice and compare the two; {only}")
    add("--tier", default="laptop", help="the tier of the runs (default: laptop)")
    add("--published", type=path_of, default=PUBLISHED, metavar="FOLDER", help="default: paper/runs")
    options = parser.parse_args(arguments)
    return exit_code(lambda: int(sum([_verify(options, one) for one in _chosen(options)]) > 0))


def _chosen(options: argparse.Namespace) -> list[StoredRun]:
    if options.tier not in TIERS:
        raise choose("tier", options.tier, TIERS)
    published = PublishedRuns(options.published / options.tier)
    known = published.ids()
    if not known:
        raise UserError(f"{published.folder}: there are no published runs")
    if options.updates is not None and options.updates < 1:
        raise UserError(f"--updates {options.updates}: must be at least 1")
    return [published.run(_full(name, known)) for name in options.runs or [random.choice(known)]]


def _full(name: str, known: list[str]) -> str:
    """Return the run id that begins so. Raises ``UserError`` where it is none, or not one alone."""
    if found := beginning_with(name, known):
        return found[0]
    raise UserError(
        f"unknown published run {name!r}{nearest(name, known)}; `python -m analysis runs status=published` lists them"
    )


def _verify(options: argparse.Namespace, expected: StoredRun) -> bool:
    """Train a run again and say how it compares; return whether it came out otherwise."""
    if problem := stale(expected):
        raise UserError(f"{expected.path}: {problem}")
    name, whole = f"run {expected.id}", expected.facts["result"]["updates"]
    updates = min(options.updates or whole, whole)
    print(
        f"{name}: {expected.config['env']['name']} {expected.config['credit']['name']} seed {expected.config['seed']}"
    )
    with tempfile.TemporaryDirectory() as results:
        found = [_train(expected, updates, Path(results) / str(number)) for number in range(1 + options.twice)]
        problems = list(islice(_problems(options, expected, found), _SHOWN))
        exact = same_kind(expected, found[0])
    for problem in problems:
        print(f"  {problem}")
    how = "bit for bit" if exact else _how_elsewhere(options.twice, updates == whole)
    print(f"{name}: {'differs' if problems else 'the same'} over {updates} updates, compared {how}")
    return bool(problems)


def _how_elsewhere(twice: bool, whole: bool) -> str:
    """Say what was compared where the published run is of another kind of machine."""
    if twice:
        return "with each other; the published run is of another kind of machine"
    return "on another kind of machine, by the first update " + ("and the end" if whole else "alone")


def _problems(options: argparse.Namespace, expected: StoredRun, found: list[StoredRun]) -> Iterator[str]:
    """Yield the differences among the runs trained here, and from the published one as far as it can be compared."""
    for again in found[1:]:
        yield from differences(found[0], again)
    if same_kind(expected, found[0]):
        yield from differences(expected, found[0])
    elif not options.twice:
        yield from _rough(options, expected, found[0])


def _train(expected: StoredRun, updates: int, results: Path) -> StoredRun:
    """Train a run again, from its published warm start where that is published."""
    if (starts := expected.path.parent / WARM_STARTS).exists():
        shutil.copytree(starts, results / WARM_STARTS)
    config = config_of(expected.config)
    config = replace(config, updates=updates, results=str(results), study={}, tracking=Tracking(mode="disabled"))
    (evaluate if config.is_evaluation else run)(config)
    return read_run(results / "runs" / run_id(identity_of(config)))


def _rough(options: argparse.Namespace, first: StoredRun, again: StoredRun) -> Iterator[str]:
    """Yield what lies outside of the bounds for another kind of machine."""
    end = _end(options, first, again) if first.facts["result"]["updates"] == again.facts["result"]["updates"] else ()
    return chain(differences_of_first_update(first, again), end)


def _end(options: argparse.Namespace, first: StoredRun, again: StoredRun) -> Iterator[str]:
    published = PublishedRuns(options.published / options.tier)
    runs = (published.run(name) for name in published.ids() if name != first.id)
    values = [r.facts["result"]["success"] for r in runs if _row(r) == _row(first)]
    if len(values) < _LEAST_SEEDS:
        print(f"  its setting has {len(values)} other published seeds, too few to predict its end from")
        return
    low, high = prediction_interval(values)
    success = again.facts["result"]["success"]
    if not low <= success <= high:
        yield f"success is {success:.3f}, outside of [{low:.3f}, {high:.3f}], which other seeds predict"


def _row(stored: StoredRun) -> dict:
    return {**stored.facts["identity"], "seed": None}


if __name__ == "__main__":
    sys.exit(main())
