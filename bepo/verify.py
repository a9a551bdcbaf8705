"""``python -m bepo.verify [RUN ...]``: train published runs again, and compare every number.

On the same kind of CPU, with the same versions, all numbers except times must be equal bit for bit. On another machine
the first update must agree within 1e-4. The final success must lie in the 99 % prediction interval of the other seeds
of the setting, if there are at least four. A start that is published as a digest alone is made again. If that gives
other weights, because the run's start was made on another kind of CPU, the first update must agree within 1e-4.
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

from bepo.core.errors import Parser, UserError, exit_code, nearest, path_of, unknown_choice
from bepo.publish import stale
from bepo.runs.compare import differences, differences_of_first_update, prediction_interval, same_kind
from bepo.runs.compose import config_of
from bepo.runs.config import TIERS, identity_of
from bepo.runs.evaluate import evaluate
from bepo.runs.train import train
from bepo.store.find import beginning_with
from bepo.store.published import PUBLISHED, WARM_STARTS, PublishedRuns
from bepo.store.run_files import StoredRun, read_run
from bepo.store.runs import run_id
from bepo.store.tracking import Tracking

_SHOWN = 10
_LEAST_SEEDS = 4
"""With fewer seeds the prediction interval is wider than [0, 1]."""


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m bepo.verify", description=(__doc__ or "").partition("\n\n")[2])
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="IDs of published runs, or their beginnings (default: a random run)")
    add("--updates", type=int, metavar="N", help="train and compare only the first N updates")
    only = "compare with the published run only on the same kind of machine"
    add("--twice", action="store_true", help=f"train twice and compare the two; {only}")
    add("--tier", default="laptop", help="the tier of the runs (default: laptop)")
    add("--published", type=path_of, default=PUBLISHED, metavar="FOLDER", help="default: paper/runs")
    options = parser.parse_args(arguments)
    return exit_code(lambda: int(sum([_verify(options, run) for run in _chosen(options)]) > 0))


def _chosen(options: argparse.Namespace) -> list[StoredRun]:
    if options.tier not in TIERS:
        raise unknown_choice("tier", options.tier, TIERS)
    published = PublishedRuns(options.published / options.tier)
    known = published.ids()
    if not known:
        raise UserError(f"{published.folder}: there are no published runs")
    if options.updates is not None and options.updates < 1:
        raise UserError(f"--updates {options.updates}: must be at least 1")
    return [published.run(_full(name, known)) for name in options.runs or [random.choice(known)]]


def _full(name: str, known: list[str]) -> str:
    """Return the run ID that begins with ``name``. Raises ``UserError`` unless there is exactly one."""
    if matches := beginning_with(name, known):
        return matches[0]
    raise UserError(
        f"unknown published run {name!r}{nearest(name, known)}; `python -m analysis runs status=published` lists them"
    )


def _verify(options: argparse.Namespace, expected: StoredRun) -> bool:
    """Train a run again and print how it compares. Return whether it differs."""
    if problem := stale(expected):
        raise UserError(f"{expected.path}: {problem}")
    name, whole = f"run {expected.id}", expected.metadata["result"]["updates"]
    updates = min(options.updates or whole, whole)
    print(
        f"{name}: {expected.config['env']['name']} {expected.config['credit']['name']} seed {expected.config['seed']}"
    )
    with tempfile.TemporaryDirectory() as results:
        trained = [_train(expected, updates, Path(results) / str(number)) for number in range(1 + options.twice)]
        problems = list(islice(_problems(options, expected, trained), _SHOWN))
        how = _how(options.twice, updates == whole, expected, trained[0])
    for problem in problems:
        print(f"  {problem}")
    print(f"{name}: {'differs' if problems else 'the same'} over {updates} updates, compared {how}")
    return bool(problems)


def _how(twice: bool, whole: bool, expected: StoredRun, trained: StoredRun) -> str:
    """Return the way in which the runs were compared."""
    first = "the first update" if expected.metrics() else "the tasks"
    if same_kind(expected, trained):
        elsewhere = f"in {first}: the published run's start was made on another kind of machine"
        return "bit for bit" if _same_start(expected, trained) else elsewhere
    if twice:
        return "with each other; the published run was trained on another kind of machine"
    return f"on another kind of machine: {first}" + (" and the final success" if whole else " only")


def _problems(options: argparse.Namespace, expected: StoredRun, trained: list[StoredRun]) -> Iterator[str]:
    """Yield the differences between the runs trained here, and from the published run as far as it is comparable."""
    for again in trained[1:]:
        yield from differences(trained[0], again)
    if same_kind(expected, trained[0]):
        compare = differences if _same_start(expected, trained[0]) else differences_of_first_update
        yield from compare(expected, trained[0])
    elif not options.twice:
        yield from _rough(options, expected, trained[0])


def _same_start(expected: StoredRun, trained: StoredRun) -> bool:
    """Return whether both runs started from the same weights, or both without a warm start."""
    first, again = (run.metadata.get("warm_start") or {} for run in (expected, trained))
    return first.get("digest") == again.get("digest")


def _train(expected: StoredRun, updates: int, results: Path) -> StoredRun:
    """Train a run again, from its published warm start if there is one."""
    if (starts := expected.path.parent / WARM_STARTS).exists():
        shutil.copytree(starts, results / WARM_STARTS)
    config = config_of(expected.config)
    config = replace(config, updates=updates, results=str(results), study={}, tracking=Tracking(mode="disabled"))
    (evaluate if config.is_evaluation else train)(config)
    return read_run(results / "runs" / run_id(identity_of(config)))


def _rough(options: argparse.Namespace, first: StoredRun, again: StoredRun) -> Iterator[str]:
    """Yield the differences that are larger than another kind of machine explains."""
    updates = {run.metadata["result"]["updates"] for run in (first, again)}
    end = _end(options, first, again) if len(updates) == 1 else ()
    return chain(differences_of_first_update(first, again), end)


def _end(options: argparse.Namespace, first: StoredRun, again: StoredRun) -> Iterator[str]:
    published = PublishedRuns(options.published / options.tier)
    runs = (published.run(name) for name in published.ids() if name != first.id)
    values = [r.metadata["result"]["success"] for r in runs if _row(r) == _row(first)]
    if len(values) < _LEAST_SEEDS:
        print(f"  only {len(values)} other published seeds of this setting: too few to predict the final success")
        return
    low, high = prediction_interval(values)
    success = again.metadata["result"]["success"]
    if not low <= success <= high:
        yield f"success is {success:.3f}, outside the prediction interval of the other seeds [{low:.3f}, {high:.3f}]"


def _row(stored: StoredRun) -> dict:
    return {**stored.metadata["identity"], "seed": None}


if __name__ == "__main__":
    sys.exit(main())
