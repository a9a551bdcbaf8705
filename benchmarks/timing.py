"""Measures time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median CPU time of ``repeats`` calls; waiting for a core does not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.median(times))
