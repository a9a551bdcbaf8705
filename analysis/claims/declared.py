"""The test of predictions that docs/ declares before their runs are trained: paired over blocks, one-sided."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.claims.looks import paired_p
from analysis.data.statistics import Estimate
from analysis.grid.success import Rates, mean_with_interval
from analysis.grid.table import Printed

FIRST_SIX, LEVEL = range(100, 106), 0.05


@dataclass(frozen=True)
class Verdict:
    """Whether numbers, one for each declared block, have a mean above 0. Without all ``is_positive`` is None."""

    points: Rates
    declared: Sequence[int] = FIRST_SIX

    @property
    def mean(self) -> str:
        """The mean with Student's 95 % interval."""
        return mean_with_interval(self.points)

    @property
    def is_positive(self) -> bool | None:
        """Whether the mean is above 0 by Student's one-sided test."""
        return self._p < LEVEL if len(self.points) == len(self.declared) else None

    @property
    def p(self) -> str:
        """The one-sided p."""
        return Printed(Estimate(self._p), ".2g").text

    @property
    def _p(self) -> float:
        two_sided = paired_p(self.points)
        return two_sided / 2 if self.points.mean() > 0 else 1 - two_sided / 2
