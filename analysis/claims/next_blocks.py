"""What ``paper/next.yaml`` declares about new blocks: non-inferiority, gain as a prediction, and groups of eight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import yaml

from analysis.claims.looks import LATE, level, speed
from analysis.claims.prediction import over_settings
from analysis.contrast import Contrast, Interval
from analysis.data.lab import plan, recorded
from analysis.data.reported import PAPER
from analysis.data.runs import Run
from analysis.data.statistics import spearman
from bepo.core.errors import UserError, choose

PLAN = PAPER / "next.yaml"
FIRST, OURS = 116, "batch_bepo"
ByBlock = Mapping[int, float]


def unseen(run: Run) -> float:
    """Return ``level`` on the held-out tasks of the validation split alone (ALFWorld: rooms that training lacks)."""
    rows = run.episodes
    late = rows[(rows["update"] > LATE * run.updates) & (rows["split"] == "validation")]
    return 100 * float(np.mean([np.mean(same) for _, same in late.groupby("update")["success"]]))


NEXT_MEASURES = {"speed": speed, "level": level, "unseen": unseen}


@dataclass(frozen=True)
class NextTest:
    """Whether Batch-BEPO is at most ``margin`` points behind the row ``less``, in the first ``blocks`` new blocks.

    ``power``: the chance of that if it is truly ``if_ahead`` points ahead, with differences like those of ``spread``.
    """

    id: str
    env: str
    measure: str
    less: str
    margin: float
    blocks: int
    if_ahead: float
    power: float
    spread: Sequence[Sequence[str]]

    @property
    def wanted(self) -> range:
        """The blocks that the test asks for."""
        return range(FIRST, FIRST + self.blocks)

    def verdict(self, by_block: ByBlock) -> Literal["holds", "not shown", "not run"]:
        """Return the verdict on the differences by block; ``not run`` until all blocks are there."""
        if not set(self.wanted) <= by_block.keys():
            return "not run"
        found = Contrast.over([by_block[block] for block in self.wanted])
        return "holds" if found.lower_bound() > -self.margin else "not shown"


@dataclass(frozen=True)
class Order:
    """Whether gain in the lab predicts speed over ``estimators`` (rows), averaged over ``blocks``."""

    blocks: Sequence[int]
    estimators: Sequence[str]


@dataclass(frozen=True)
class Groups:
    """Whether the leads of ``methods`` over ``base`` on WebShop vanish in groups of eight, by ``margin`` points."""

    blocks: Sequence[int]
    margin: float
    methods: Sequence[str]
    base: str


@dataclass(frozen=True)
class NextPlan:
    """Everything that the file declares."""

    tests: Sequence[NextTest]
    order: Order
    groups: Groups


def read_next_plan(path: Path = PLAN) -> NextPlan:
    """Return the plan. Raises ``UserError`` for unknown fields and measures."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        tests = [NextTest(**item) for item in content["tests"]]
        order, groups = Order(**content["order"]), Groups(**content["groups"])
    except TypeError as error:
        raise UserError(f"{path}: {error}") from None
    for test in tests:
        if test.measure not in NEXT_MEASURES:
            raise choose(f"{path}: measure", test.measure, NEXT_MEASURES)
    return NextPlan(tests, order, groups)


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation over estimators of a measure of the lab with speed, positive if as predicted."""

    value: float
    interval: Interval

    @property
    def text(self) -> str:
        """The correlation with its interval over resampled estimators."""
        return f"{self.value:.2f} {self.interval.text('.2f', '')}".strip()

    @property
    def verdict(self) -> Literal["predicts learning", "not shown"]:
        """The verdict of ``order``: the whole interval must lie above 0."""
        return "predicts learning" if self.interval.low > 0 else "not shown"


def lab_setting(env: str) -> str:
    """Return the recorded setting of the lab with the dials of an environment."""
    return next(at for at in plan()["gain"]["at"] if f"like={env}" in at.split())


def rank_correlation(env: str, measure: Literal["gain", "error"], speeds: Mapping[str, float]) -> Correlation:
    """Return how well a measure predicts the speed of estimators, by row. The lab must have measured them."""
    words = {row: words for words, row in plan()["gain"]["estimators"].items()}
    sign = {"gain": 1, "error": -1}[measure]
    measured = [recorded("gain").values(lab_setting(env), words[row], measure) for row in speeds]
    predicted = np.array([sign * np.mean(values) for values in measured if values is not None])
    speed = np.array(list(speeds.values()))
    return Correlation(float(spearman(predicted, speed)), over_settings(predicted, speed))
