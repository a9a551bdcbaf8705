"""Comparison of a run with the same run trained again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from scipy import stats

from bepo.store.run_files import Rows, StoredRun

_CLOCKS = ("time/", "cpu/")
_KIND = ("cpu", "instructions", "threads", "blas", "versions")
FIRST_UPDATE = 1e-4
"""Tolerance for numbers of the first update on another kind of machine, relative to the number or absolute below 1."""


def same_kind(first: StoredRun, again: StoredRun) -> bool:
    """Return whether both runs were trained on the same kind of CPU with the same threads, libraries and versions."""
    kinds = [{name: s["machine"][name] for name in _KIND} for run in (first, again) for s in run.metadata["sessions"]]
    return all(kind == kinds[0] for kind in kinds)


def differences(first: StoredRun, again: StoredRun) -> Iterator[str]:
    """Yield every number of the first run, except times, that is not equal bit for bit in the other; also other tasks.

    If one run has fewer updates, only these are compared. Values that only ``again`` has are ignored: a run that stops
    early evaluates at other updates, and a newer version may record more.
    """
    yield from _other_tasks(first, again)
    updates = min(run.metadata["result"]["updates"] for run in (first, again))
    yield from _differences("metrics", _until(first.metrics(), updates), _until(again.metrics(), updates))
    before, now = (_passes(run.episodes(), updates) for run in (first, again))
    for key, rows in sorted(before.items()):
        yield from _differences(f"episodes of {key}", rows, now.get(key, []))


def differences_of_first_update(first: StoredRun, again: StoredRun) -> Iterator[str]:
    """Yield the numbers of the first update that differ by more than ``FIRST_UPDATE``, and other tasks."""
    yield from _other_tasks(first, again)
    for a, b in zip(first.metrics()[:1], again.metrics()[:1]):  # an evaluation has no updates
        for name in sorted(a):
            if name.startswith(_CLOCKS) or not isinstance(a[name], (int, float)) or a[name] == b.get(name):
                continue
            if name not in b or not abs(a[name] - b[name]) <= FIRST_UPDATE * max(1, abs(a[name])):  # true for a NaN
                yield f"update 1: {name} is {b.get(name)}, and was {a[name]}"


def prediction_interval(values: Sequence[float], level: float = 0.99) -> tuple[float, float]:
    """Return the prediction interval for one more value of the same normal distribution, at confidence ``level``.

    Raises ``ValueError`` for fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"{len(values)} values have no prediction interval")
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * stdev(values) * sqrt(1 + 1 / len(values))
    return mean(values) - half, mean(values) + half


def _other_tasks(first: StoredRun, again: StoredRun) -> Iterator[str]:
    before, now = (run.metadata["task_sets"] for run in (first, again))
    for split in sorted(before):
        if now.get(split) != before[split]:
            yield f"{split} tasks: {now.get(split)}, and before {before[split]}"


def _until(rows: Rows, updates: int) -> Rows:
    return [row for row in rows if row["update"] <= updates]


def _passes(rows: Rows, updates: int) -> dict[tuple[Any, ...], Rows]:
    """Return the rows of each evaluation pass by (update, split, evaluation seed)."""
    passes: dict[tuple[Any, ...], Rows] = {}
    for row in _until(rows, updates):
        passes.setdefault((row["update"], row["split"], row["evaluation_seed"]), []).append(row)
    return passes


def _differences(what: str, first: Rows, again: Rows) -> Iterator[str]:
    if len(first) != len(again):
        yield f"{what}: {len(again)} rows, and {len(first)} before"
    for number, (a, b) in enumerate(zip(first, again), start=1):
        for name in sorted(a):
            if not name.startswith(_CLOCKS) and (name not in b or a[name] != b[name]):
                yield f"{what}, row {number}: {name} is {b.get(name)}, and was {a[name]}"
