"""The test of a prediction that docs/ declares before its runs are trained: paired over blocks, one-sided."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.contrast import LEVEL, Contrast
from analysis.data.statistics import Estimate
from analysis.grid.contrasts import ByBlock
from analysis.grid.table import Printed

FIRST_SIX = range(100, 106)
OVERALL = "Mean over methods"
"""The row of a table whose difference is tested."""


@dataclass(frozen=True)
class DeclaredTest:
    """Whether a mean over blocks is above 0.

    ``points``: a number for each block, of which those in ``blocks`` count. ``words``: the verdict if the mean is above
    0, and if it is not. ``unseen``: the blocks of which no run had been read when the test was declared.
    """

    name: str
    tier: str
    points: ByBlock
    words: tuple[str, str]
    blocks: Sequence[int] = FIRST_SIX
    unseen: Sequence[int] = ()

    @cached_property
    def _found(self) -> Contrast:
        return self._in(self.blocks)

    def _in(self, blocks: Sequence[int]) -> Contrast:
        return Contrast.over([self.points[block] for block in blocks if block in self.points])

    @property
    def is_decided(self) -> bool:
        """Whether all declared blocks have runs, at a tier that trains long enough."""
        return self.tier != "smoke" and self._found.units == len(self.blocks)

    @property
    def mean(self) -> str:
        """The mean with Student's 95 % interval."""
        return self._found.text()

    @property
    def p(self) -> float:
        """Student's one-sided p of a mean of 0."""
        return self._found.p("greater")

    @property
    def verdict(self) -> str:
        """The word for the verdict."""
        return self.words[0] if self.p < LEVEL else self.words[1]

    @property
    def told(self) -> str:
        """The verdict with its numbers, or how many blocks it lacks."""
        if not self.is_decided:
            return f"is not judged ({self._found.units} of {len(self.blocks)} blocks at tier {self.tier})"
        new = self._in(self.unseen)
        alone = f"; {new.text()} in the {new.units} blocks that had not been seen" if new.units else ""
        return f"{self.verdict} ({self.mean}; one-sided p {Printed(Estimate(self.p), '.2g').text}{alone})"

    @property
    def facts(self) -> dict[str, str]:
        """Mean and verdict for the paper's text; empty without a verdict."""
        parts = {"mean": self.mean, "verdict": self.verdict} if self.is_decided else {}
        return {f"{self.name}/{part}": text for part, text in parts.items()}
