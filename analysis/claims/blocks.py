"""Runs in blocks: their studies, every measure by row and block, and the primary claims tested on them."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from analysis.claims.looks import BLOCK_MEASURES, Plan, Tested, decide
from analysis.contrast import weighted
from analysis.data.rows import ROW_IN_BLOCKS
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies

CLAIMED = ("blocks", "blocks_ablations")
"""The studies that the primary claims are about."""
IN_BLOCKS = (*CLAIMED, "frontier")

Frames = Mapping[str, pd.DataFrame]
"""A table of blocks by rows, by measure."""


def runs_in_blocks(studies: Studies, names: Sequence[str] = IN_BLOCKS) -> list[Run]:
    """Return the runs of studies in blocks that may be compared."""
    return Studies({name: studies[name] for name in names}).pooled()


def measured(
    runs: Sequence[Run],
    row_of: Callable[[Run], str] = lambda run: str(ROW_IN_BLOCKS.row(run)),
    measures: Mapping[str, Callable[[Run], float]] = BLOCK_MEASURES,
) -> Frames:
    """Return the measures of the runs of one environment. ``row_of`` names the row of a run."""
    rows = grouped(sorted(runs, key=lambda run: run.seed), row_of)
    return {
        name: pd.DataFrame({row: _by_block(of_row, measure) for row, of_row in rows.items()}, dtype=float).sort_index()
        for name, measure in measures.items()
    }


def _by_block(runs: Sequence[Run], measure: Callable[[Run], float]) -> dict[int, float]:
    return {run.seed: measure(run) for run in runs}


def measured_by_env(runs: Sequence[Run]) -> Mapping[str, Frames]:
    """Return every measure, by environment."""
    return {env: measured(of_env) for env, of_env in grouped(runs, lambda run: run.env).items()}


def tested_claims(plan: Plan, runs: Sequence[Run]) -> list[Tested]:
    """Return the plan's claims, tested on runs in blocks."""
    by_env, differences = measured_by_env(runs), {}
    for claim in plan.claims:
        table = by_env.get(claim.env, measured([]))[claim.measure]
        differences[claim] = weighted(table, {claim.more: 1, claim.less: -1}).to_dict()
    return decide(plan, differences)


def in_all(table: pd.DataFrame, blocks: Sequence[int]) -> pd.DataFrame:
    """Return these blocks of the rows that have all of them."""
    return table.reindex(index=blocks).dropna(axis="columns")
