"""The tests that docs/ and paper/ declare about runs in blocks before they are trained: one-sided, over blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from analysis.contrast import LEVEL, Contrast, mean_difference, slope, weighted
from analysis.data.statistics import Estimate
from analysis.grid.table import Printed

FIRST_SIX = range(100, 106)


@dataclass(frozen=True)
class DeclaredTest:
    """Whether a weighted sum of rows is above ``-margin``, in the mean over ``blocks`` (the first and the last).

    The weights are those of a ``slope`` over rows, of the mean difference of ``pairs``, or ``weights`` themselves.
    ``says``: the verdict if it is above that, and if it is not. ``unseen``: the blocks of which no run had been read
    when the test was declared. ``env``: the environment, if the runs have several.
    """

    name: str
    says: tuple[str, str]
    blocks: tuple[int, int]
    slope: Sequence[str] = ()
    pairs: Sequence[Sequence[str]] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    unseen: Sequence[int] = ()
    env: str = ""
    measure: str = "speed"
    margin: float = 0

    def on(self, tier: str, table: pd.DataFrame) -> "Judged":
        """Test its measure. ``table``: blocks by rows."""
        weights = self.weights or (slope(self.slope) if self.slope else mean_difference(self.pairs))
        first, last = self.blocks
        return Judged(self, tier, weighted(table, weights, range(first, last + 1)))


@dataclass(frozen=True)
class Judged:
    """A declared test with its points: a number for each of its blocks that has all rows."""

    test: DeclaredTest
    tier: str
    points: pd.Series

    @property
    def is_decided(self) -> bool:
        """Whether all declared blocks have runs, at a tier that trains long enough."""
        return self.tier != "smoke" and len(self.points) == self.asked

    @property
    def asked(self) -> int:
        """The number of blocks that the test asks for."""
        return self.test.blocks[1] - self.test.blocks[0] + 1

    @property
    def contrast(self) -> Contrast:
        """The mean of its points."""
        return Contrast.over(self.points)

    @property
    def _p(self) -> float:
        return Contrast.over(self.points + self.test.margin).p("greater")

    @property
    def verdict(self) -> str:
        """The word for the verdict."""
        return self.test.says[0] if self._p < LEVEL else self.test.says[1]

    @property
    def told(self) -> str:
        """The verdict with its numbers, or how many blocks it lacks."""
        if not self.is_decided:
            return f"is not judged ({len(self.points)} of {self.asked} blocks at tier {self.tier})"
        new = Contrast.over(self.points[self.points.index.isin(list(self.test.unseen))])
        alone = f"; {new.text()} in the {new.units} blocks that had not been seen" if new.units else ""
        p = Printed(Estimate(self._p), ".2g").text
        return f"{self.verdict} ({self.contrast.text()}; one-sided p {p}{alone})"

    @property
    def facts(self) -> dict[str, str]:
        """Mean and verdict for the paper's text; empty without a verdict."""
        parts = {"mean": self.contrast.text(), "verdict": self.verdict} if self.is_decided else {}
        return {f"{self.test.name}/{part}": text for part, text in parts.items()}
