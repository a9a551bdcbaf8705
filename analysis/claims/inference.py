"""Statistical tests of claims.

* An inequality between means: Welch's t test over training seeds (Welch, 1947). Terms are paired where the same runs,
  or bit-identical ones, are behind them.
* An inequality between deviations: a permutation test, with at least five seeds a side, and as many on both.
* "and": an intersection-union test, whose p is the largest of its parts (Berger, 1982).
* "or": Holm's correction, which gives the smallest p times the number of parts.
* All claims of a tier and a family: Benjamini and Hochberg (1995) at 5 %. Holm's correction is reported beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb, isnan, nan, sqrt

import numpy as np
import scipy  # loads scipy.stats when it is used
from jaxtyping import Float

from analysis.claims.formula import Formula, Inequality, Joined
from analysis.contrast import LEVEL, Contrast, freedom, holm_adjusted
from analysis.data.reported import EntryKey

SEEDS_FOR_SPREAD = 5
"""Training seeds a side with which deviations are tested.

Because the medians are estimated, the permutation test does not keep its level exactly. One-sided at 2.5 %, it is wrong
in 3.7 % with four normal seeds and in 6.3 % with four exponential ones. With five to eight seeds it is wrong in at most
2.2 % (normal), 2.8 % (skewness 1) and 4.3 % (exponential); see tests/analysis/test_inference.py."""
_MOST_SPLITS = 20_000


@dataclass(frozen=True)
class SeedValues:
    """The results of an entry: one value per training seed, and what its run learned (``Run.learned``)."""

    key: EntryKey
    seeds: tuple[int, ...]
    values: np.ndarray
    runs: tuple[str, ...]


Values = Mapping[str, SeedValues]
"""The results by the names that a claim gives its entries."""
PValues = tuple[np.ndarray, np.ndarray]
"""The p values of a formula and of its opposite, one per trial of a simulation or a single one."""


@dataclass(frozen=True)
class Estimated:
    """The quantity of an inequality, claimed to be positive, with its standard error over training seeds.

    ``freedom``: the degrees of freedom. Error and freedom are nan if a t test is not possible (one training seed, or no
    deviation). ``p``: the one-sided p values of "positive" and of "negative"; 1 if no test is possible. ``deviation``:
    of one seed of a sample, the root mean variance if there are two; the error of N seeds each is sqrt(2 / N) times it.
    ``samples``: their number, less if variances differ; the degrees of freedom of N seeds each are (N - 1) times it.
    ``deviations``: of an inequality between deviations, both of them, by term.
    """

    inequality: Inequality
    value: float
    error: float
    freedom: float
    p: tuple[float, float]
    seeds: int
    deviation: float = nan
    samples: float = nan
    deviations: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval; nan if no t test is possible."""
        interval = Contrast(self.value, self.error, self.freedom).interval
        return interval.low, interval.high


@dataclass(frozen=True)
class Outcome:
    """A tested formula with its parts. ``support`` and ``against`` are p values of the formula and of its opposite."""

    formula: Formula
    parts: tuple[Outcome, ...]
    support: float
    against: float
    estimated: Estimated | None = None

    @property
    def word(self) -> str:
        """The word that joins its parts, "and" or "or"; empty for an inequality."""
        return self.formula.word if isinstance(self.formula, Joined) else ""

    def leaves(self) -> list[Estimated]:
        """Return every inequality that was tested."""
        return [self.estimated] if self.estimated else [leaf for part in self.parts for leaf in part.leaves()]

    @property
    def p(self) -> float:
        """The two-sided p value."""
        return min(1.0, 2 * min(self.support, self.against))


def significance(formula: Formula, values: Values, paired: bool = False) -> Outcome:
    """Test a formula; if ``paired``, on differences between runs of one training seed (same warm start, same tasks)."""
    if isinstance(formula, Inequality):
        estimated = _spread(formula, values) if formula.of_spread else _estimated(formula, values, paired)
        return Outcome(formula, (), *estimated.p, estimated)
    parts = tuple(significance(part, values, paired) for part in formula.parts)
    support, against = joined(formula.word, [(np.asarray(part.support), np.asarray(part.against)) for part in parts])
    return Outcome(formula, parts, float(support), float(against))


def joined(word: str, parts: Sequence[PValues]) -> PValues:
    """Return the p values of parts that are joined by "and" or "or", from those of the parts."""
    support, against = np.array(parts).swapaxes(0, 1)
    if word == "and":
        return support.max(0), _holm(against)
    return _holm(support), against.max(0)


def _holm(p: np.ndarray) -> np.ndarray:
    return np.minimum(1, len(p) * p.min(0))


def _estimated(inequality: Inequality, values: Values, paired: bool) -> Estimated:
    if any(name.endswith(".std") for name in inequality.coefficients):
        seeds = min((len(v.seeds) for v in values.values()), default=0)
        return Estimated(inequality, nan, nan, nan, (1.0, 1.0), seeds)
    compared = {name: values[name] for name in inequality.coefficients}
    samples = independent(inequality.coefficients, _by_seed(compared) if paired else compared)
    value = inequality.constant + sum(float(sample.mean()) for sample in samples) if samples else nan
    seeds = min((len(sample) for sample in samples), default=0)
    tested = Contrast.between(samples, [1] * len(samples), value) if samples else Contrast(nan)
    if isnan(tested.error):
        return Estimated(inequality, value, nan, nan, (1.0, 1.0), seeds)
    variances, above = [float(sample.var(ddof=1)) for sample in samples], tested.p("greater")
    deviation, effective = sqrt(sum(variances) / 2), freedom(variances, [2] * len(samples))
    return Estimated(inequality, value, tested.error, tested.freedom, (above, 1 - above), seeds, deviation, effective)


def _by_seed(values: Values) -> Values:
    """Return the results of the seeds that all entries have, as if one run of each seed were behind all of them."""
    shared = sorted(set.intersection(*(set(value.seeds) for value in values.values())))
    places = {name: [value.seeds.index(seed) for seed in shared] for name, value in values.items()}
    runs = tuple(map(str, shared))
    return {n: SeedValues(value.key, tuple(shared), value.values[places[n]], runs) for n, value in values.items()}


def independent(slopes: Mapping[str, float], values: Values) -> list[np.ndarray]:
    """Return independent samples whose means add up to the sum of each slope times the mean of its entry.

    A run that is behind several entries counts once: its values are added. So do bit-identical runs.
    """
    holders: dict[str, list[str]] = {}
    for name in slopes:
        for run in dict.fromkeys(values[name].runs):
            holders.setdefault(run, []).append(name)
    together: dict[tuple[str, ...], list[str]] = {}
    for run, names in holders.items():
        together.setdefault(tuple(names), []).append(run)
    return [sum(_shares(slopes, values, names, runs), np.zeros(len(runs))) for names, runs in together.items()]


def _shares(slopes: Mapping[str, float], values: Values, names: Sequence[str], runs: Sequence[str]) -> list[np.ndarray]:
    """Return the runs' part in each entry's slope times its mean, times their number."""
    places = {name: [values[name].runs.index(run) for run in runs] for name in names}
    return [slopes[n] * (len(runs) / len(set(values[n].runs))) * values[n].values[places[n]] for n in names]


def _spread(inequality: Inequality, values: Values) -> Estimated:
    """Test whether one entry's seeds deviate more from their median than the other's.

    The test takes the first seeds of both, as many as the entry with fewer has. With all of 5 seeds beside 16 it would
    be wrong in up to 6 % instead of 2.5 %, because deviations from a median of few seeds are smaller.
    """
    terms = sides(inequality)
    more, less = (values[term.removesuffix(".std")].values for term in terms)
    seeds = min(len(more), len(less))
    deviations = {t: float(np.std(x, ddof=1)) if seeds > 1 else nan for t, x in zip(terms, (more, less))}
    value = deviations[terms[0]] - deviations[terms[1]]
    p = (1.0, 1.0)
    if seeds >= SEEDS_FOR_SPREAD:
        above, below = spread_p(more[None, :seeds], less[None, :seeds])
        p = float(above[0]), float(below[0])
    return Estimated(inequality, value, nan, nan, p, seeds, deviations=deviations)


def sides(inequality: Inequality) -> tuple[str, str]:
    """Return the terms of a difference: the one that is claimed to be greater, then the other."""
    more, less = sorted(inequality.coefficients, key=lambda term: -inequality.coefficients[term])
    return more, less


def spread_p(
    more: Float[np.ndarray, "trials seeds"], less: Float[np.ndarray, "trials seeds"], most: int = _MOST_SPLITS
) -> PValues:
    """Return the one-sided p values of "more deviates more from its median" and of "less", by permutation.

    If there are more than ``most`` ways to split the seeds into two halves, it takes as many random ones.
    """
    every = np.concatenate([np.abs(x - np.median(x, axis=1, keepdims=True)) for x in (more, less)], axis=1)
    sums = every @ _splits(more.shape[1], most)
    rounding = 1e-12 * every.sum(1, keepdims=True)
    observed = sums[:, :1]
    return (sums >= observed - rounding).mean(1), (sums <= observed + rounding).mean(1)


@lru_cache(maxsize=4)
def _splits(half: int, most: int) -> np.ndarray:
    """Return the ways to choose ``half`` of twice as many items, one per column with 1 for each chosen item.

    The first column is the observed split. If there are more than ``most`` ways, the others are random.
    """
    if comb(2 * half, half) <= most:
        chosen = np.array(list(combinations(range(2 * half), half)))
    else:
        rng = np.random.default_rng(0)
        chosen = np.array([range(half), *(rng.permutation(2 * half)[:half] for _ in range(most))])
    columns = np.zeros((len(chosen), 2 * half))
    np.put_along_axis(columns, chosen, 1, axis=1)
    return columns.T


@dataclass(frozen=True)
class Decided:
    """``word`` after Benjamini-Hochberg over the ``size`` claims of a ``family``, with the adjusted p.

    ``holm``: whether Holm's correction decides it too.
    """

    word: str  # supported, contradicted, undecided
    adjusted: float
    holm: bool
    family: str
    size: int


def decide(tested: Mapping[str, Outcome], families: Mapping[str, str]) -> dict[str, Decided]:
    """Decide claims, correcting within each family. Both mappings are by claim name."""
    decided = {}
    for family in dict.fromkeys(families.values()):
        names = [name for name in tested if families[name] == family]
        p = [tested[name].p for name in names]
        adjusted, holm = scipy.stats.false_discovery_control(p), holm_adjusted(p)
        for name, fdr, fwer in zip(names, adjusted, holm):
            word = _direction(tested[name]) if fdr <= LEVEL else "undecided"
            decided[name] = Decided(word, float(fdr), bool(fwer <= LEVEL), family, len(names))
    return decided


def _direction(tested: Outcome) -> str:
    return "supported" if tested.support < tested.against else "contradicted"
