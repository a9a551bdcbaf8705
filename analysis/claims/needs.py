"""The number of training seeds that a claim needs, if differences and deviations stay as they are now."""

from math import ceil, inf, isfinite, sqrt

from analysis.claims.inference import SEEDS_FOR_SPREAD, Estimated, Outcome
from analysis.data.statistics import seeds_to_detect

MOST_SEEDS = 1000


def seeds_needed(tested: Outcome) -> float:
    """Return the training seeds that decide a formula with 80 % power at 5 %, uncorrected; inf without an estimate.

    An "and" that holds needs the seeds of all parts; one that fails needs the seeds of its cheapest failing part. For
    an "or" it is the reverse.
    """
    if tested.estimated:
        return _of_inequality(tested.estimated)
    values = [_value(part) for part in tested.parts]
    holds = min(values) > 0 if tested.word == "and" else max(values) > 0
    if (tested.word == "and") == holds:
        return max(seeds_needed(part) for part in tested.parts)
    deciding = [part for part, value in zip(tested.parts, values) if (value > 0) == holds]
    return min(seeds_needed(part) for part in deciding)


def _value(tested: Outcome) -> float:
    if tested.estimated:
        return tested.estimated.value
    return (min if tested.word == "and" else max)(_value(part) for part in tested.parts)


def _of_inequality(one: Estimated) -> float:
    if one.inequality.of_spread:
        return max(SEEDS_FOR_SPREAD, one.seeds + 1)
    if not isfinite(one.error) or one.seeds < 2:
        return inf
    deviation = one.error * sqrt(one.seeds / 2)  # of one side, assuming both are equal
    seeds = seeds_to_detect(one.value, deviation) if abs(one.value) > deviation / sqrt(MOST_SEEDS) else inf
    return max(ceil(seeds), one.seeds + 1) if seeds <= MOST_SEEDS else inf
