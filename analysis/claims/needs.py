"""The number of training seeds that a claim needs, if differences and deviations stay as they are now."""

from bisect import bisect_left
from math import inf, isfinite, prod, sqrt

import numpy as np

from analysis.claims.formula import Formula, Inequality
from analysis.claims.inference import LEVEL, SEEDS_FOR_SPREAD, Estimated, Outcome, PValues, joined, sides, spread_p
from analysis.data.statistics import t_power

MOST_SEEDS = 1000
_POWER = 0.8
_TRIALS = 2000
_SPLITS = 1000


def seeds_needed(tested: Outcome) -> float:
    """Return the training seeds that decide a formula with 80 % power at 5 %; inf if 1,000 do not.

    Of an "and" that holds all parts must be significant at once: the power is the product of theirs. Of one that fails
    a single part must be, at a level divided by the number of parts (Holm). For an "or" it is the reverse. The power of
    claims about spread is simulated.
    """
    least = 1 + max((leaf.seeds for leaf in tested.leaves()), default=1)
    sizes = range(max(least, 2), MOST_SEEDS + 1)
    place = bisect_left(sizes, _POWER, key=lambda seeds: power_of(tested, seeds))
    return sizes[place] if place < len(sizes) else inf


def power_of(tested: Outcome, seeds: int, level: float = LEVEL) -> float:
    """Return the probability that ``seeds`` seeds of every entry decide a formula that is as it looks now.

    Its parts are taken as independent, except those about spread, which are simulated together.
    """
    if all(leaf.inequality.of_spread for leaf in tested.leaves()):
        return _of_spread(tested, seeds, level)
    if tested.estimated:
        return _of_inequality(tested.estimated, seeds, level)
    values = [_value(part) for part in tested.parts]
    holds = min(values) > 0 if tested.word == "and" else max(values) > 0
    if (tested.word == "and") == holds:
        return prod(power_of(part, seeds, level) for part in tested.parts)
    deciding = [part for part, value in zip(tested.parts, values) if (value > 0) == holds]
    return 1 - prod(1 - power_of(part, seeds, level / len(tested.parts)) for part in deciding)


def _value(tested: Outcome) -> float:
    if tested.estimated:
        return tested.estimated.value
    return (min if tested.word == "and" else max)(_value(part) for part in tested.parts)


def _of_inequality(estimate: Estimated, seeds: int, level: float) -> float:
    if not isfinite(estimate.deviation):
        return 0.0
    return t_power(abs(estimate.value) / estimate.deviation * sqrt(seeds / 2), estimate.samples * (seeds - 1), level)


def _of_spread(tested: Outcome, seeds: int, level: float) -> float:
    """Return the share of simulated trials that decide, with normal seeds that have the deviations of now."""
    deviations = {term: value for leaf in tested.leaves() for term, value in leaf.deviations.items()}
    if seeds < SEEDS_FOR_SPREAD or not all(value > 0 for value in deviations.values()):
        return 0.0
    rng = np.random.default_rng(0)
    drawn = {term: deviations[term] * rng.standard_normal((_TRIALS, seeds)) for term in sorted(deviations)}
    support, against = _simulated(tested.formula, drawn)
    return float(np.mean(2 * np.minimum(support, against) <= level))


def _simulated(formula: Formula, drawn: dict[str, np.ndarray]) -> PValues:
    if isinstance(formula, Inequality):
        more, less = sides(formula)
        return spread_p(drawn[more], drawn[less], _SPLITS)
    return joined(formula.word, [_simulated(part, drawn) for part in formula.parts])
