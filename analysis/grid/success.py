"""Success of the runs of a row in per cent, in training and at the end, and differences of means."""

from collections.abc import Sequence
from math import nan

import numpy as np

from analysis.contrast import Contrast, Rates
from analysis.data.runs import Run
from analysis.data.statistics import Estimate
from analysis.grid.table import Printed


def learning(runs: Sequence[Run]) -> Rates:
    """Return the success in training of each run, averaged over all its updates."""
    return np.array([100 * run.mean("train/success") for run in runs])


def final(runs: Sequence[Run]) -> Rates:
    """Return the success of each run's last policy on the test tasks."""
    return np.array([run.passes().to_numpy().mean() for run in runs])


def mean_of(rates: Rates) -> Printed:
    """Return the mean with the sample deviation, which is nan for a single number."""
    return Printed(Estimate(float(rates.mean()), float(rates.std(ddof=1)) if len(rates) > 1 else nan))


def difference(a: Rates, b: Rates) -> str:
    """Return the mean of ``a`` minus that of ``b`` with its 95 % interval (Welch's)."""
    return Contrast.between([a, b]).text()
