"""Table crbc-depth: the declared test of docs/lab.md, whether CRBC learns faster with a deeper backup."""

import numpy as np

from analysis.claims.blocks import Measured, measured, runs_in_blocks
from analysis.claims.declared import FIRST_SIX, DeclaredTest
from analysis.claims.looks import MEASURES
from analysis.data.rows import BLOCKS
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, compared
from analysis.grid.notes import origins, protocol
from analysis.grid.table import NOT_RUN, Printed, Table

STUDIES = ("blocks", "crbc_depth")
ROWS = {"crbc depth=0": "0", "crbc depth=1": "1", "crbc depth=2": "2", "crbc depth=3": "3", "crbc": "fixed point"}


@artefact("crbc-depth", "table", study=STUDIES, key=BLOCKS)
def crbc_depth(studies: Studies) -> Table:
    """Compare the depths in the blocks that all of them have, and test the slope of speed over them."""
    runs = [r for r in runs_in_blocks(studies, STUDIES) if (r.env, r.method) == ("sokoban", "crbc")]
    blocks = [{run.seed for run in runs if BLOCKS.row(run) == row} for row in ROWS]
    shared = set.intersection(set(FIRST_SIX), *blocks)
    used = [run for run in runs if run.seed in shared]
    by_row = measured(used)
    numbers = {row: [text for name in MEASURES for text in _numbers(by_row, row, name)] for row in by_row}
    slopes = _slopes([by_row[row]["speed"] for row in ROWS]) if shared else {}
    test = DeclaredTest("crbc-depth", studies.tier, slopes, ("is positive", "is not positive"))
    return Table(
        "CRBC with backups of other depths on text Sokoban in blocks (success, %).",
        ["Depth", "Blocks", "Speed", "Difference", "Level", "Difference"],
        [[name, str(len(shared)), *numbers.get(row, [NOT_RUN] * 4)] for row, name in ROWS.items()],
        [
            " ".join(protocol(studies.values(), used)),
            "Speed and level as in table blocks-methods, in the blocks that all depths have. Difference: from the "
            f"fixed point, with Student's 95 % interval. Declared in docs/lab.md before a depth was trained: the "
            f"slope of speed over the depths, numbered 0 to 4, {test.told}.",
            *origins(used),
        ],
        facts=test.facts,
    )


def _numbers(by_row: Measured, row: str, measure: str) -> list[Printed | str]:
    return compared(by_row[row][measure], by_row["crbc"][measure] if row != "crbc" else {})


def _slopes(speeds: list[ByBlock]) -> ByBlock:
    """Return the slope of speed over the depths, numbered 0 to 4, in each block."""
    rises = np.polyfit(np.arange(len(speeds)), np.array([list(by_block.values()) for by_block in speeds]), 1)[0]
    return dict(zip(speeds[0], rises.tolist(), strict=True))
