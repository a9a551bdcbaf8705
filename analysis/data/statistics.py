"""Means, deviations and intervals over training seeds, evaluation seeds and tasks.

The nesting is the paper's (supplement, "Evaluation metrics"). A sample is an array (training seeds, evaluation seeds,
tasks), in per cent. Intervals are at 95 %.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import inf, isnan, nan, sqrt
from typing import Literal

import numpy as np
import scipy  # loads scipy.stats when it is used
from jaxtyping import Float
from scipy.special import nctdtr, stdtrit

from analysis.contrast import NO_INTERVAL, Contrast, Interval

CONFIDENCE = 0.95
_ALPHA = 1 - CONFIDENCE
_RESAMPLES = 2000

Level = Literal["training", "evaluation"]


@dataclass(frozen=True)
class Estimate:
    """A mean in per cent and its sample standard deviation, which may be nan."""

    mean: float
    std: float = nan


@dataclass(frozen=True)
class Scores:
    """The results of one entry: for each training seed an array (evaluation seeds, tasks), in per cent.

    ``tasks`` and ``kinds`` describe the columns. ``tasks`` is None if the runs have different tasks.
    """

    seeds: tuple[int, ...]
    values: tuple[np.ndarray, ...]
    tasks: tuple[str, ...] | None
    kinds: tuple[str, ...] = ()

    @cached_property
    def per_seed(self) -> np.ndarray:
        """The mean over evaluation passes within each training seed."""
        return np.array([v.mean(axis=1).mean() for v in self.values])

    @cached_property
    def by_task(self) -> np.ndarray:
        """The mean over evaluation passes, shape (training seeds, tasks). All runs must have the same tasks."""
        return np.stack([v.mean(axis=0) for v in self.values])

    @property
    def seed_counts(self) -> str:
        """The number of training and of evaluation seeds: ``3×3``."""
        return f"{len(self.seeds)}×{'/'.join(map(str, sorted({len(v) for v in self.values})))}"


@dataclass(frozen=True, kw_only=True)
class Reproduced(Estimate):
    """An estimate from runs. ``std`` is over ``n`` seeds of the named level, and nan for one seed."""

    n: int
    level: Level
    sample: Scores


def estimate(sample: Scores, level: Level = "training") -> Reproduced:
    """Return mean and deviation over seeds of ``level``.

    With several training seeds the deviation is always over training seeds.
    """
    level = level if len(sample.seeds) == 1 else "training"
    values = sample.per_seed if level == "training" else sample.values[0].mean(axis=1)
    std = float(values.std(ddof=1)) if len(values) > 1 else nan
    return Reproduced(float(values.mean()), std, n=len(values), level=level, sample=sample)


def bootstrap(*samples: Scores) -> Interval:
    """Return the bootstrap interval of the mean of a sample, or of the difference of two on the same tasks.

    Tasks are resampled within each kind (stratified), the same for both samples. Training seeds are resampled too, the
    same for both samples if these have the same seeds (they share warm start and task order). The bounds are nan if the
    runs have different tasks, or if all episodes of every sample have the same result.
    """
    first = samples[0]
    if not _share_tasks(samples) or not _vary(samples):
        return NO_INTERVAL
    streams = [1 if sample.seeds == first.seeds else 1 + i for i, sample in enumerate(samples)]
    drawn = [resampled(len(sample.seeds), stream) @ sample.by_task for sample, stream in zip(samples, streams)]
    by_task = drawn[0] - drawn[1] if len(samples) > 1 else drawn[0]
    return quantiles((by_task * _weights(first.kinds)).sum(axis=1))


@dataclass(frozen=True)
class Difference:
    """The comparison of two entries a and b, in points.

    ``improvement``: the probability that a training of a beats one of b (Agarwal et al., 2021). ``chance``: its
    bootstrap interval over training seeds. ``interval``: of the difference; it decides whether a and b are separated.
    ``paired``: the bootstrap interval on the shared tasks.
    """

    difference: float = nan
    interval: Interval = NO_INTERVAL
    improvement: float = nan
    chance: Interval = NO_INTERVAL
    seeds: int = 0
    p: float = nan
    paired: Interval = NO_INTERVAL

    @property
    def separated(self) -> bool | None:
        """Whether zero is outside the interval; None with one training seed, as tasks alone cannot separate methods."""
        return None if self.seeds < 2 else self.interval.low > 0 or self.interval.high < 0


def compare(a: Scores, b: Scores) -> Difference:
    """Compare two entries.

    With two or more training seeds each, the interval is Welch's; its bounds are nan if all seeds agree exactly. With
    one seed it is the paired bootstrap, which describes these two trainings and not the methods.
    """
    paired, seeds, p = bootstrap(a, b), min(len(a.seeds), len(b.seeds)), nan
    wins = np.heaviside(a.per_seed[:, None] - b.per_seed[None, :], 0.5)
    drawn = resampled(len(a.seeds), 1), resampled(len(b.seeds), 2)
    told = seeds > 1 and np.ptp(wins) > 0  # if all pairs of seeds agree, all resamples agree
    chance = quantiles(np.einsum("ri,ij,rj->r", drawn[0], wins, drawn[1])) if told else NO_INTERVAL
    difference, interval = float(a.per_seed.mean() - b.per_seed.mean()), paired
    if seeds > 1:
        tested = Contrast.between([a.per_seed, b.per_seed])
        interval, p = tested.interval, nan if isnan(tested.error) else tested.p()
    return Difference(difference, interval, float(wins.mean()), chance, seeds, p, paired)


@cache
def t_power(noncentrality: float, freedom: float, level: float) -> float:
    """Return the power of a two-sided t test.

    SciPy's distribution function is NaN in tails that are too small for it. They count as 0 here. statsmodels' power is
    NaN then.
    """
    bound = float(stdtrit(freedom, 1 - level / 2))
    missed, wrong_side = np.nan_to_num(nctdtr(freedom, noncentrality, [bound, -bound]))
    return float(1 - missed + wrong_side)


def seeds_to_detect(gap: float, std: float, power: float = 0.8) -> float:
    """Return the training seeds per side with which a two-sided t test at 5 % detects a gap in points."""
    if isnan(std) or gap == 0:
        return inf
    if std == 0:
        return 2

    def reached(n: int) -> float:
        return t_power(abs(gap) / std * sqrt(n / 2), 2 * n - 2, _ALPHA)

    return 2 + bisect_left(range(2, 10**8), power, key=reached)


def detectable(std: float, n: int, power: float = 0.8) -> float:
    """Return the smallest gap in points that ``n`` training seeds per side detect; inf for one seed."""
    if n < 2 or isnan(std):
        return inf
    from statsmodels.stats.power import TTestIndPower  # takes a second to import

    return std * TTestIndPower().solve_power(nobs1=n, alpha=_ALPHA, power=power)


def pooled_std(a: Scores, b: Scores) -> float:
    """Return the root mean variance over training seeds of two entries; nan if one has a single seed."""
    several = min(len(a.seeds), len(b.seeds)) > 1
    return sqrt((a.per_seed.var(ddof=1) + b.per_seed.var(ddof=1)) / 2) if several else nan


def spearman(a: Float[np.ndarray, "*n s"], b: Float[np.ndarray, "*n s"]) -> Float[np.ndarray, "*n"]:
    """Return the rank correlations of the last axis of ``a`` and ``b``; 0 where all values of one are equal."""
    x, y = (scipy.stats.rankdata(values, axis=-1) for values in (a, b))
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    size = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.divide((x * y).sum(-1), size, out=np.zeros_like(size), where=size > 0)


def _share_tasks(samples: Sequence[Scores]) -> bool:
    return samples[0].tasks is not None and all(sample.tasks == samples[0].tasks for sample in samples)


def resampled(seeds: int, stream: int = 0) -> np.ndarray:
    """Return (resamples, seeds): the share of each seed in a bootstrap sample."""
    return _weights(("",) * seeds, stream)


def _vary(samples: Sequence[Scores]) -> bool:
    return any(np.ptp(np.concatenate([v.ravel() for v in sample.values])) > 0 for sample in samples)


@lru_cache(maxsize=64)
def _weights(kinds: tuple[str, ...], stream: int = 0) -> np.ndarray:
    """Return (resamples, items): how often each item is drawn within its kind, divided by the number of items."""
    rng = np.random.default_rng(stream)
    _, kind_of_item = np.unique(np.array(kinds), return_inverse=True)
    counts = np.zeros((_RESAMPLES, len(kinds)))
    for kind in range(kind_of_item.max() + 1):
        members = np.flatnonzero(kind_of_item == kind)
        counts[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), _RESAMPLES)
    return counts / len(kinds)


def quantiles(values: np.ndarray) -> Interval:
    """Return the 95 % interval of resampled numbers."""
    return Interval(*np.quantile(values, [_ALPHA / 2, 1 - _ALPHA / 2]).tolist())
