"""The test of a prediction that docs/ declares before its runs are trained: paired over blocks, one-sided."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.claims.looks import paired_p
from analysis.data.statistics import Estimate
from analysis.grid.contrasts import ByBlock
from analysis.grid.success import Rates, mean_with_interval
from analysis.grid.table import Printed

FIRST_SIX, LEVEL = range(100, 106), 0.05
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
    def _values(self) -> Rates:
        return np.array([self.points[block] for block in self.blocks if block in self.points])

    @property
    def is_decided(self) -> bool:
        """Whether all declared blocks have runs, at a tier that trains long enough."""
        return self.tier != "smoke" and len(self._values) == len(self.blocks)

    @property
    def mean(self) -> str:
        """The mean with Student's 95 % interval."""
        return mean_with_interval(self._values)

    @property
    def p(self) -> float:
        """Student's one-sided p of a mean of 0."""
        two_sided = paired_p(self._values)
        return two_sided / 2 if self._values.mean() > 0 else 1 - two_sided / 2

    @property
    def verdict(self) -> str:
        """The word for the verdict."""
        return self.words[0] if self.p < LEVEL else self.words[1]

    @property
    def told(self) -> str:
        """The verdict with its numbers, or how many blocks it lacks."""
        if not self.is_decided:
            return f"is not judged ({len(self._values)} of {len(self.blocks)} blocks at tier {self.tier})"
        new = np.array([self.points[block] for block in self.unseen])
        alone = f"; {mean_with_interval(new)} in the {len(new)} blocks that had not been seen" if len(new) else ""
        return f"{self.verdict} ({self.mean}; one-sided p {Printed(Estimate(self.p), '.2g').text}{alone})"

    @property
    def facts(self) -> dict[str, str]:
        """Mean and verdict for the paper's text; empty without a verdict."""
        parts = {"mean": self.mean, "verdict": self.verdict} if self.is_decided else {}
        return {f"{self.name}/{part}": text for part, text in parts.items()}
