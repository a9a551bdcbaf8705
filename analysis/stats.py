"""Aggregation as the paper nests it (supplement, "Evaluation metrics"), and what can be said beyond a mean.

A sample is an array (training seeds, evaluation seeds, tasks), in per cent. Intervals are at 95 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, inf, isnan, nan, sqrt
from typing import Literal

import numpy as np
from scipy import optimize, stats

CONFIDENCE = 0.95
_RESAMPLES = 2000

Level = Literal["training", "evaluation"]


@dataclass(frozen=True)
class Estimate:
    """``std`` is the sample deviation over ``n`` seeds of the named level, nan for one."""

    mean: float
    std: float = nan
    n: int | None = None
    level: Level = "training"


@dataclass(frozen=True)
class Sample:
    """What the runs of one cell scored: per training seed an array (evaluation seeds, tasks), in per cent.

    ``tasks`` and ``kinds`` describe the columns; ``tasks`` is None where runs differ in them.
    """

    seeds: tuple[int, ...]
    values: tuple[np.ndarray, ...]
    tasks: tuple[str, ...] | None
    kinds: tuple[str, ...] = ()

    @cached_property
    def per_seed(self) -> np.ndarray:
        """Mean over evaluation passes within each training seed."""
        return np.array([v.mean(axis=1).mean() for v in self.values])

    @cached_property
    def per_pass(self) -> np.ndarray:
        """Mean of every evaluation pass, of all training seeds."""
        return np.concatenate([v.mean(axis=1) for v in self.values])

    @cached_property
    def by_task(self) -> np.ndarray | None:
        """(training seeds, tasks): mean over evaluation passes."""
        return None if self.tasks is None else np.stack([v.mean(axis=0) for v in self.values])

    @property
    def seed_counts(self) -> str:
        """Training x evaluation seeds: ``3x3``."""
        passes = sorted({len(v) for v in self.values})
        return f"{len(self.seeds)}×{'/'.join(map(str, passes))}"


def estimate(sample: Sample, level: Level = "training") -> Estimate:
    """Mean and deviation over training seeds, or, of one training seed, over evaluation seeds (the ablations).

    With several training seeds the deviation is over them, whatever was asked for: it is the one that counts.
    """
    if level == "evaluation" and len(sample.seeds) == 1:
        return _over(sample.per_pass, "evaluation")
    return _over(sample.per_seed, "training")


def _over(values: np.ndarray, level: Level) -> Estimate:
    std = float(values.std(ddof=1)) if len(values) > 1 else nan
    return Estimate(float(values.mean()), std, len(values), level)


def iqm(sample: Sample) -> float:
    """Interquartile mean over (training seed, task) scores (Agarwal et al., 2021); nan where tasks differ."""
    return nan if sample.by_task is None else float(stats.trim_mean(sample.by_task, 0.25, axis=None))


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def interval(sample: Sample) -> Interval:
    """Bootstrap of the mean: training seeds are drawn anew, and tasks within each kind (stratified).

    With one training seed it covers the draw of tasks only. nan where runs differ in their tasks.
    """
    if sample.by_task is None:
        return Interval(nan, nan)
    seeds = _weights(("",) * len(sample.seeds), 1)
    return _quantiles(((seeds @ sample.by_task) * _weights(sample.kinds)).sum(axis=1))


@dataclass(frozen=True)
class Comparison:
    """``difference`` is a - b in points. ``improvement`` is the chance that a training of a beats one of b.

    ``interval`` is what separates, nan where training seeds agree exactly; ``paired`` is the bootstrap on the shared
    panel, nan where the panels differ.
    """

    difference: float
    interval: Interval
    improvement: float
    seeds: int
    p: float
    paired: Interval

    @property
    def separated(self) -> bool | None:
        """Is zero outside the interval? None with one training seed: a task panel alone cannot tell methods apart."""
        return None if self.seeds < 2 else self.interval.low > 0 or self.interval.high < 0


def compare(a: Sample, b: Sample) -> Comparison:
    """Two cells on one panel.

    With two training seeds or more each, Welch's t interval of the difference. With one, the paired bootstrap: what
    the panel says of these two trainings, not of the methods.
    """
    paired = _paired(a, b)
    difference = float(a.per_seed.mean() - b.per_seed.mean())
    wins = a.per_seed[:, None] - b.per_seed[None, :]
    improvement = float((wins > 0).mean() + (wins == 0).mean() / 2)
    seeds = min(len(a.seeds), len(b.seeds))
    if seeds < 2:
        return Comparison(difference, paired, improvement, seeds, nan, paired)
    parts = [s.per_seed.var(ddof=1) / len(s.seeds) for s in (a, b)]
    error = sqrt(sum(parts))
    if error == 0:  # all failed, say: no deviation was seen, which is not one of zero
        return Comparison(difference, Interval(nan, nan), improvement, seeds, nan, paired)
    freedom = sum(parts) ** 2 / sum(v**2 / (len(s.seeds) - 1) for v, s in zip(parts, (a, b)))
    reach = error * float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom))
    p = 2 * float(stats.t.sf(abs(difference) / error, freedom))
    inside = Interval(difference - reach, difference + reach)
    return Comparison(difference, inside, improvement, seeds, p, paired)


def _paired(a: Sample, b: Sample) -> Interval:
    """Bootstrap of the difference: the same tasks are drawn for both, within kinds, and the same training seeds where
    both have the same (they share warm start and task order)."""
    if a.tasks is None or a.tasks != b.tasks:
        return Interval(nan, nan)
    seeds = [_weights(("",) * len(s.seeds), 1 if a.seeds == b.seeds else 1 + i) for i, s in enumerate((a, b))]
    gap = seeds[0] @ a.by_task - seeds[1] @ b.by_task
    return _quantiles((gap * _weights(a.kinds)).sum(axis=1))


def half_width(coefficients: Sequence[float], deviations: Sequence[float], counts: Sequence[int]) -> float:
    """Of the interval of a sum of independent means, each over ``counts`` seeds with such a deviation (Welch); nan if
    nothing deviates."""
    parts = [c**2 * s**2 / n for c, s, n in zip(coefficients, deviations, counts, strict=True)]
    if sum(parts) == 0:
        return nan
    freedom = sum(parts) ** 2 / sum(p**2 / (n - 1) for p, n in zip(parts, counts))
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom) * sqrt(sum(parts)))


def combination(coefficients: Sequence[float], samples: Sequence[Sample]) -> Interval:
    """The interval of a sum of cells, each times its coefficient; of a difference it is that of ``compare``.

    nan where the training seeds of each cell agree exactly. Where a cell has one training seed it is a paired bootstrap
    over the shared tasks, and nan where they differ.
    """
    if min(len(s.seeds) for s in samples) > 1:
        middle = sum(c * s.per_seed.mean() for c, s in zip(coefficients, samples))
        deviations = [float(s.per_seed.std(ddof=1)) for s in samples]
        half = half_width(coefficients, deviations, [len(s.seeds) for s in samples])
        return Interval(float(middle - half), float(middle + half))
    if samples[0].tasks is None or any(s.tasks != samples[0].tasks for s in samples):
        return Interval(nan, nan)
    by_task = sum(c * s.by_task.mean(axis=0) for c, s in zip(coefficients, samples))
    return _quantiles(_weights(samples[0].kinds) @ by_task)


def seeds_to_detect(gap: float, std: float, power: float = 0.8) -> float:
    """Training seeds a side with which a two-sided t test at 5 % finds a gap of ``gap`` points with this power."""
    if isnan(std) or gap == 0:
        return inf
    if std == 0:
        return 2
    effect = abs(gap) / std
    start = 2 * ((stats.norm.ppf(0.5 + CONFIDENCE / 2) + stats.norm.ppf(power)) / effect) ** 2
    n = max(2, ceil(start) - 1)  # the normal approximation is a lower bound
    while _power(effect, n) < power:
        n += 1
    return n


def detectable(std: float, n: int, power: float = 0.8) -> float:
    """The least gap in points that ``n`` training seeds a side detect with this power; inf for one seed."""
    if n < 2 or isnan(std):
        return inf
    high = 0.1
    while _power(high, n) < power:
        high *= 2
    return std * float(optimize.brentq(lambda effect: _power(effect, n) - power, high / 2, high))


def pooled_std(a: Sample, b: Sample) -> float:
    """Root mean variance over training seeds of two cells; nan where one has a single seed."""
    if min(len(a.seeds), len(b.seeds)) < 2:
        return nan
    return sqrt((a.per_seed.var(ddof=1) + b.per_seed.var(ddof=1)) / 2)


def _power(effect: float, n: int) -> float:
    """Of a two-sided two-sample t test with ``n`` a side and a gap of ``effect`` deviations."""
    freedom, shift = 2 * n - 2, effect * sqrt(n / 2)
    limit = stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)
    return float(stats.nct.sf(limit, freedom, shift) + stats.nct.cdf(-limit, freedom, shift))


@lru_cache(maxsize=64)
def _weights(kinds: tuple[str, ...], stream: int = 0) -> np.ndarray:
    """(resamples, items): how often each is drawn, over the number of items; with replacement, within its kind."""
    rng = np.random.default_rng(stream)
    _, of = np.unique(np.array(kinds), return_inverse=True)
    out = np.zeros((_RESAMPLES, len(kinds)))
    for kind in range(of.max() + 1):
        members = np.flatnonzero(of == kind)
        out[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), _RESAMPLES)
    return out / len(kinds)


def _quantiles(values: np.ndarray) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))
