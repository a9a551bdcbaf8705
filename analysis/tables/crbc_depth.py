"""Table crbc-depth: the declared test of docs/lab.md, whether CRBC learns faster with a deeper backup."""

import numpy as np

from analysis.claims.blocks import Measured, measured, runs_in_blocks
from analysis.claims.declared import FIRST_SIX, Verdict
from analysis.claims.looks import MEASURES
from analysis.data.rows import BLOCKS
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, compared
from analysis.grid.notes import origins, protocol
from analysis.grid.success import Rates
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
    slopes = _slopes([by_row[row]["speed"] for row in ROWS]) if shared else np.empty(0)
    verdict, facts = _verdict(slopes) if studies.tier != "smoke" else ("Not judged.", {})
    return Table(
        "CRBC with backups of other depths on text Sokoban in blocks (success, %).",
        ["Depth", "Blocks", "Speed", "Difference", "Level", "Difference"],
        [[name, str(len(shared)), *numbers.get(row, [NOT_RUN] * 4)] for row, name in ROWS.items()],
        [
            " ".join(protocol(studies.values(), used)),
            "Speed and level as in table blocks-methods, in the blocks that all depths have. Difference: from the "
            f"fixed point, with Student's 95 % interval. Declared in docs/lab.md before a depth was trained: {verdict}",
            *origins(used),
        ],
        facts=facts,
    )


def _numbers(by_row: Measured, row: str, measure: str) -> list[Printed | str]:
    return compared(by_row[row][measure], by_row["crbc"][measure] if row != "crbc" else {})


def _slopes(speeds: list[ByBlock]) -> Rates:
    """Return the slope of speed in each block over the depths, numbered 0 to 4."""
    return np.polyfit(np.arange(len(speeds)), np.array([list(by_block.values()) for by_block in speeds]), 1)[0]


def _verdict(slopes: Rates) -> tuple[str, dict[str, str]]:
    """Return a sentence about the test, and the facts for the paper's text."""
    verdict = Verdict(slopes)
    if verdict.is_positive is None:
        return (
            f"the slope of speed over the depths is tested with {len(FIRST_SIX)} blocks; {len(slopes)} have all.",
            {},
        )
    word = "rises" if verdict.is_positive else "does not rise"
    facts = {"crbc-depth/slope": verdict.mean, "crbc-depth/verdict": word}
    return f"speed {word} with depth, by {verdict.mean} points a step (one-sided p {verdict.p}).", facts
