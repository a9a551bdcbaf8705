"""The tests that ``paper/next.yaml`` declares: non-inferiority in new blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from analysis.claims.looks import late_success, level, speed
from analysis.contrast import Contrast
from analysis.data.reported import PAPER
from analysis.data.runs import Run
from bepo.core.errors import UserError, choose

PLAN = PAPER / "next.yaml"
FIRST, OURS = 116, "batch_bepo"
ByBlock = Mapping[int, float]


def unseen(run: Run) -> float:
    """Return ``level`` on the held-out tasks of the validation split alone (ALFWorld: rooms that training lacks)."""
    rows = run.episodes
    return late_success(run, rows[rows["split"] == "validation"])


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
class NextPlan:
    """The tests, and what else the file declares."""

    tests: Sequence[NextTest]
    order: Mapping[str, Any]
    groups: Mapping[str, Any]


def read_next_plan(path: Path = PLAN) -> NextPlan:
    """Return the plan. Raises ``UserError`` for unknown fields and measures."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        tests = [NextTest(**item) for item in content["tests"]]
    except TypeError as error:
        raise UserError(f"{path}: {error}") from None
    for test in tests:
        if test.measure not in NEXT_MEASURES:
            raise choose(f"{path}: measure", test.measure, NEXT_MEASURES)
    return NextPlan(tests, content["order"], content["groups"])
