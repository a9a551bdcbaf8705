"""Runs in blocks: their studies, and every measure by row and block."""

from collections.abc import Callable, Mapping, Sequence

from analysis.claims.looks import MEASURES
from analysis.data.rows import BLOCKS
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.contrasts import ByBlock

CLAIMED = ("blocks", "blocks_ablations")
"""The studies that the primary claims are about."""
IN_BLOCKS = (*CLAIMED, "frontier")
BASE = "gated_bepo"
"""The row that every other is compared with."""

Measured = Mapping[str, Mapping[str, ByBlock]]
"""A number for each block, by row and measure."""


def runs_in_blocks(studies: Studies, names: Sequence[str] = IN_BLOCKS) -> list[Run]:
    """Return the runs of studies in blocks that may be compared."""
    return Studies({name: studies[name] for name in names}).pooled()


def measured(runs: Sequence[Run], row_of: Callable[[Run], str] = lambda run: str(BLOCKS.row(run))) -> Measured:
    """Return every measure of the runs of one environment. ``row_of`` names the row of a run."""
    rows = grouped(sorted(runs, key=lambda run: run.seed), row_of)
    return {
        row: {name: {run.seed: measure(run) for run in own} for name, measure in MEASURES.items()}
        for row, own in rows.items()
    }


def speed_by_row(found: Measured) -> Mapping[str, ByBlock]:
    """Return success in training, by row and block."""
    return {row: by_measure["speed"] for row, by_measure in found.items()}


def measured_by_env(runs: Sequence[Run]) -> Mapping[str, Measured]:
    """Return every measure, by environment."""
    return {env: measured(own) for env, own in grouped(runs, lambda run: run.env).items()}
