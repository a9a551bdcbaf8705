"""What ``paper/next.yaml`` and ``paper/desktop.yaml`` declare about new blocks, before their first runs.

Each file has ``tests``, paired differences over blocks, and ``order``, a rank correlation over methods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from analysis.claims.declared import DeclaredTest
from analysis.claims.looks import MEASURES_OF_TESTS
from analysis.claims.prediction import over_settings
from analysis.contrast import Interval
from analysis.data.described import described
from analysis.data.lab import plan, recorded
from analysis.data.reported import PAPER
from analysis.data.statistics import spearman
from bepo.core.errors import unknown_choice

NEXT, DESKTOP = PAPER / "next.yaml", PAPER / "desktop.yaml"
OURS = "batch_bepo"


@dataclass(frozen=True)
class BlockTest:
    """Whether row ``more`` is at most ``margin`` points behind row ``less``, in ``blocks`` blocks from ``first`` on.

    ``power``: the chance of that if it is truly ``if_ahead`` points ahead, with differences like those of the pairs of
    rows in ``spread``, or normal ones with the deviation ``sd``.
    """

    first: int
    id: str
    less: str
    blocks: int
    if_ahead: float
    power: float
    more: str = OURS
    env: str = "sokoban"
    measure: str = "speed"
    margin: float = 0
    spread: Sequence[Sequence[str]] = ()
    sd: float | None = None

    @property
    def test(self) -> DeclaredTest:
        """The test of the difference over the blocks."""
        return DeclaredTest(
            self.id,
            says=("holds", "not shown"),
            blocks=(self.first, self.first + self.blocks - 1),
            weights={self.more: 1, self.less: -1},
            env=self.env,
            measure=self.measure,
            margin=self.margin,
        )


@dataclass(frozen=True)
class Groups:
    """Whether improvements of ``methods`` over ``base`` on WebShop vanish in groups of eight, by ``margin`` points."""

    blocks: Sequence[int]
    margin: float
    methods: Sequence[str]
    base: str


@dataclass(frozen=True)
class NextOrder:
    """Whether gain in the lab predicts speed over ``estimators`` (rows), averaged over ``blocks``."""

    blocks: Sequence[int]
    estimators: Sequence[str]


@dataclass(frozen=True)
class DesktopOrder:
    """Whether speed on the tiny model predicts speed on pretrained weights over ``methods`` (rows)."""

    methods: Sequence[str]
    least_blocks: int
    least_methods: int


_DECLARED: Mapping[str, tuple[int, Mapping[str, type]]] = {
    NEXT.name: (116, {"order": NextOrder, "groups": Groups}),
    DESKTOP.name: (300, {"order": DesktopOrder}),
}
"""The first block of each file, and what it declares beside tests."""


def read_plan(path: Path) -> tuple[list[BlockTest], dict[str, Any]]:
    """Return the tests of ``NEXT`` or ``DESKTOP``, and what else it declares by name.

    Raises ``UserError`` for unknown fields and measures.
    """
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    first, kinds = _DECLARED[path.name]
    tests = [described(f"{path}: tests", BlockTest, {"first": first, **item}) for item in content["tests"]]
    parts = {name: described(f"{path}: {name}", kind, content[name]) for name, kind in kinds.items()}
    for test in tests:
        if test.measure not in MEASURES_OF_TESTS:
            raise unknown_choice(f"{path}: measure", test.measure, MEASURES_OF_TESTS)
    return tests, parts


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of a prediction with speed, over methods, and its interval over resampled methods."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, predicted: Sequence[float], speeds: Sequence[float]) -> "Correlation":
        """Return the correlation of N predictions with N speeds."""
        x, y = np.array(predicted, float), np.array(speeds, float)
        return cls(float(spearman(x, y)), over_settings(x, y))

    @property
    def text(self) -> str:
        """The correlation with its interval."""
        return f"{self.value:.2f} {self.interval.text('.2f', '')}".strip()

    @property
    def is_positive(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.interval.low > 0


def lab_setting(env: str) -> str:
    """Return the recorded setting of the lab with the dials of an environment."""
    return next(at for at in plan()["gain"]["at"] if f"like={env}" in at.split())


def predicted_by_lab(env: str, measure: Literal["gain", "error"], speeds: Mapping[str, float]) -> Correlation:
    """Return the correlation of a recorded measure with speed over rows, positive if as predicted.

    The lab must have measured every row.
    """
    words = {row: words for words, row in plan()["gain"]["estimators"].items()}
    sign = {"gain": 1, "error": -1}[measure]
    measured = [recorded("gain").values(lab_setting(env), words[row], measure) for row in speeds]
    return Correlation.of([sign * float(np.mean(row)) for row in measured if row is not None], list(speeds.values()))
