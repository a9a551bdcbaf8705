"""Compare the sizes that the paper states with the intervals of the runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, isnan, nan

from analysis.claims.claims import Claim
from analysis.claims.expression import Expression
from analysis.claims.inference import SeedValues, independent
from analysis.contrast import Contrast
from analysis.data.reported import all_entries


@dataclass(frozen=True)
class Size:
    """A stated size, the size in the runs, and its 95 % interval, whose bounds may be nan."""

    text: str
    stated: float
    value: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """``within`` if the interval contains the stated size; ``smaller`` or ``larger`` if the runs' size is; else
        ``undecided``.
        """
        if isnan(self.low):
            return "undecided"
        return "within" if self.low <= self.stated <= self.high else "smaller" if self.high < self.stated else "larger"


def sizes_of(claim: Claim, values: Mapping[str, SeedValues]) -> tuple[Size, ...]:
    """Return every size that the claim states, with the size in the runs."""
    printed = all_entries()
    sizes = []
    for comparison, stated in zip(claim.comparisons, claim.stated):
        if stated is not None:
            said = stated({name: float(printed[claim.entries[name]].mean) for name in stated.names})
            sizes.append(Size(comparison.size.text, said, *_interval(comparison.size, values)))
    return tuple(sizes)


def _interval(quantity: Expression, values: Mapping[str, SeedValues]) -> tuple[float, float, float]:
    """Return a quantity of the runs with its interval, to first order around the means (Welch-Satterthwaite)."""
    if quantity.names != quantity.terms:
        return nan, nan, nan
    means = {name: float(values[name].values.mean()) for name in quantity.names}
    value, gradient = quantity(means), quantity.gradient(means)
    samples = independent(gradient, values)
    if not isfinite(value):
        return value, nan, nan
    interval = Contrast.between(samples, [1] * len(samples), value).interval
    return value, interval.low, interval.high
