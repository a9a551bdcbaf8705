"""Call a function for many values, on all cores."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_WORK: list[Any] = []  # of a fork: the function and the values, which were never pickled


def map_in_forks(function: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Return the function's result for each value, in order, as ``map`` does. An error of a call is raised here.

    On Linux every core works in forks of this process. They share its imports and the values; only results travel, so
    they must be picklable. The function must not use threads of this process, such as torch's and pyarrow's. Elsewhere,
    with one core, and if a fork is killed, this process does the work.
    """
    from joblib import cpu_count  # takes 40 ms, and most commands fork nothing

    cores = min(cpu_count(), len(values))
    if cores > 1 and sys.platform == "linux":
        fork = multiprocessing.get_context("fork")
        chunk = max(1, len(values) // (32 * cores))
        with suppress(BrokenProcessPool), ProcessPoolExecutor(cores, fork, _start, (function, values)) as pool:
            return list(pool.map(_call, range(len(values)), chunksize=chunk))
    return list(map(function, values))


def _start(*work: Any) -> None:
    _WORK[:] = work


def _call(number: int) -> Any:
    function, values = _WORK
    return function(values[number])
