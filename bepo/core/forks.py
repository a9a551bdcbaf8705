"""A function of many values, on all cores."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from joblib import cpu_count

T = TypeVar("T")
R = TypeVar("R")


def map_in_forks(function: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Return the function of each value, in order, as ``map`` does. An error of a call is raised here.

    On Linux every core works in forks of this process: they share all imports and the values, so only results travel,
    and must be picklable. Elsewhere, and with one core, this process does the work.
    """
    cores = min(cpu_count(), len(values))
    if cores < 2 or sys.platform != "linux":
        return list(map(function, values))
    fork, share = multiprocessing.get_context("fork"), max(1, len(values) // (8 * cores))
    with ProcessPoolExecutor(cores, fork, initializer=_WORK.extend, initargs=((function, values),)) as pool:
        return list(pool.map(_call, range(len(values)), chunksize=share))


_WORK: list[Any] = []  # of a fork: the function and the values, which were never pickled


def _call(number: int) -> Any:
    function, values = _WORK
    return function(values[number])
