"""Success of the runs of a row in per cent, in training and at the end, and differences of means."""

from collections.abc import Sequence
from math import nan

import numpy as np
from jaxtyping import Float

from analysis.data.runs import Run
from analysis.data.statistics import Estimate, Interval, half_width
from analysis.grid.table import Printed

Rates = Float[np.ndarray, " N"]
"""Success in per cent of N runs, or N means."""


def learning(runs: Sequence[Run]) -> Rates:
    """Return the success in training of each run, averaged over all its updates."""
    return np.array([100 * run.mean("train/success") for run in runs])


def final(runs: Sequence[Run]) -> Rates:
    """Return the success of each run's last policy on the test tasks."""
    return np.array([run.passes().to_numpy().mean() for run in runs])


def mean_of(rates: Rates) -> Printed:
    """Return the mean with the sample deviation, which is nan for a single number."""
    return Printed(Estimate(float(rates.mean()), _deviation(rates)))


def difference(a: Rates, b: Rates) -> str:
    """Return the mean of ``a`` minus that of ``b`` with its 95 % interval (Welch's)."""
    return with_interval(float(a.mean() - b.mean()), [1, -1], [a, b], "z.1f")


def mean_with_interval(values: Rates, form: str = "z.1f") -> str:
    """Return the mean with its 95 % interval (Student's)."""
    return with_interval(float(values.mean()), [1], [values], form)


def interval_of(value: float, slopes: Sequence[float], samples: Sequence[Rates]) -> Interval:
    """Return the 95 % interval of a sum of means, each times its slope; nan if a sample has a single number."""
    counts = [len(rates) for rates in samples]
    half = half_width(slopes, [_deviation(rates) for rates in samples], counts) if min(counts) > 1 else nan
    return Interval(value - half, value + half)


def with_interval(value: float, slopes: Sequence[float], samples: Sequence[Rates], form: str) -> str:
    """Return a sum of means, each times its slope; with its interval if all samples have two or more numbers."""
    return f"{value:{form}} {interval_of(value, slopes, samples).text(form, '')}".strip()


def _deviation(rates: Rates) -> float:
    return float(rates.std(ddof=1)) if len(rates) > 1 else nan
