"""Every comparison: a weighted sum of means, its 95 % interval and its t test.

Over units that rows share (blocks, training seeds, worlds) the rows are weighted within each unit, and the test is
Student's. Over independent samples each mean has its weight, and the test is Welch's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan, sqrt
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import stdtr, stdtrit

LEVEL = 0.05
"""The level of tests; intervals have the other 95 %."""

Rates = Float[np.ndarray, " N"]
"""Success in per cent of N runs, or N means."""


@dataclass(frozen=True)
class Interval:
    """The bounds of an interval; both are nan if it does not exist."""

    low: float
    high: float

    def text(self, form: str, none: str) -> str:
        """Return ``[1.2, 3.4]`` with numbers in this format, or the text ``none`` if both bounds are nan."""
        return f"[{self.low:{form}}, {self.high:{form}}]" if isfinite(self.low) else none


NO_INTERVAL = Interval(nan, nan)


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of means, with its standard error and the degrees of freedom of its t test.

    ``value`` is nan without any number. Error and freedom are nan if no test is possible: a mean of one number, or
    numbers that do not deviate. ``units``: how many units the rows share; 0 for independent samples.
    """

    value: float
    error: float = nan
    freedom: float = nan
    units: int = 0

    @classmethod
    def over(cls, points: Sequence[float] | Rates | pd.Series) -> Self:
        """Return the mean of a number for each unit, such as the differences of two rows (Student)."""
        points = np.asarray(points, float)
        return cls.between([points], [1], units=len(points)) if len(points) else cls(nan)

    @classmethod
    def of(cls, table: pd.DataFrame, weights: Mapping[Any, float]) -> Self:
        """Return the mean of ``weighted`` rows of a table of units by rows."""
        return cls.over(weighted(table, weights))

    @classmethod
    def between(
        cls, samples: Sequence[Rates], weights: Sequence[float] = (1, -1), value: float | None = None, units: int = 0
    ) -> Self:
        """Return a weighted sum of the means of independent samples; by default a difference (Welch).

        ``value``: the quantity, if it is the sum to first order only.
        """
        if value is None:
            value = sum(weight * float(sample.mean()) for weight, sample in zip(weights, samples, strict=True))
        counts = [len(sample) for sample in samples]
        deviations = [_deviation(sample) for sample in samples] if min(counts) > 1 else [nan] * len(counts)
        return cls.of_deviations(value, weights, deviations, counts, units)

    @classmethod
    def of_deviations(
        cls,
        value: float,
        weights: Sequence[float],
        deviations: Sequence[float],
        counts: Sequence[int],
        units: int = 0,
    ) -> Self:
        """Return a sum of means over ``counts`` numbers with these sample deviations (Welch-Satterthwaite)."""
        parts = [w**2 * s**2 / n for w, s, n in zip(weights, deviations, counts, strict=True)]
        if not sum(parts) > 0:
            return cls(value, units=units)
        return cls(value, sqrt(sum(parts)), freedom(parts, counts), units)

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval; nan if no test is possible."""
        return float(stdtrit(self.freedom, 1 - LEVEL / 2)) * self.error

    @property
    def interval(self) -> Interval:
        """The 95 % interval; its bounds are nan if no test is possible."""
        return Interval(self.value - self.half_width, self.value + self.half_width)

    @property
    def is_apart(self) -> bool:
        """Whether the interval excludes zero."""
        return self.interval.low > 0 or self.interval.high < 0

    def text(self, form: str = "z.1f", none: str = "–") -> str:
        """Return ``2.3 [1.2, 3.4]``; without an interval the number alone, and without a number ``none``."""
        return none if isnan(self.value) else f"{self.value:{form}} {self.interval.text(form, '')}".strip()

    def p(self, alternative: Literal["two-sided", "greater", "less"] = "two-sided") -> float:
        """Return the p value of a sum of 0; 1 if no test is possible."""
        if isnan(self.error):
            return 1.0
        t = self.value / self.error  # scipy.stats' tests take 50 times as long, which a simulation feels
        if alternative == "two-sided":
            return float(2 * stdtr(self.freedom, -abs(t)))
        return float(stdtr(self.freedom, -t if alternative == "greater" else t))

    def lower_bound(self, level: float = LEVEL) -> float:
        """Return the one-sided bound that the sum exceeds at this level; nan if no test is possible."""
        return self.value - float(stdtrit(self.freedom, 1 - level)) * self.error


def _deviation(values: Rates) -> float:
    return float(values.std(ddof=1)) if np.ptp(values) else 0.0  # rounding gives equal numbers a deviation


def freedom(parts: Sequence[float], counts: Sequence[int]) -> float:
    """Return the degrees of freedom of a sum of means over ``counts`` numbers (Welch-Satterthwaite).

    ``parts`` are the variances of the means, not all of them 0.
    """
    return sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, counts))


def weighted(table: pd.DataFrame, weights: Mapping[Any, float], units: Collection[int] | None = None) -> pd.Series:
    """Return the weighted sum of rows in each unit that has all of them. ``table``: units by rows.

    With ``units``, only these count.
    """
    complete = table.reindex(columns=list(weights)).dropna()
    return (complete if units is None else complete.loc[complete.index.isin(list(units))]) @ pd.Series(
        dict(weights), dtype=float
    )


def slope(rows: Sequence[str]) -> dict[str, float]:
    """Return the weights of a least-squares slope over rows numbered from 0."""
    x = np.arange(len(rows)) - (len(rows) - 1) / 2
    return dict(zip(rows, (x / (x @ x)).tolist(), strict=True))


def mean_difference(pairs: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the weights of the mean over pairs (more, less) of their differences."""
    weights: dict[str, float] = {}
    for more, less in pairs:  # a row may be in several pairs
        weights[more] = weights.get(more, 0) + 1 / len(pairs)
        weights[less] = weights.get(less, 0) - 1 / len(pairs)
    return weights


def holm_adjusted(p: Sequence[float]) -> np.ndarray:
    """Return the p values after Holm's step-down correction (Holm, 1979), in the order of ``p``.

    ``multipletests`` of statsmodels gives the same, but it collects all garbage at every call, which takes long.
    """
    order = np.argsort(p)
    stepped = np.maximum.accumulate(np.asarray(p, float)[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted
