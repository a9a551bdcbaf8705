"""Tables of stored runs as text, and their numbers by numpy and scipy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table
from analysis.output.build import build
from tests.stored_runs import in_block, write_run


def write_rates(
    results: Path,
    study: str,
    rates: Mapping[str, Sequence[float] | np.ndarray],
    block: int | None = None,
    seed: int = 0,
    at: Mapping[str, object] | None = None,
    **run,
) -> None:
    """Write runs that succeed so often in training: of each method, a number for each seed, or for each block."""
    for method, own in rates.items():
        for i, rate in enumerate(own):
            seeds = {"seed": seed + i} if block is None else in_block(block + i)
            settings = {"credit.name": method, **seeds, **(at or {})}
            write_run(results, study, settings, [[1, 0]], metrics={"train/success": rate}, **run)


def artefact_of(results: Path, label: str, tier: str = "laptop", **options: bool):
    """Build an artefact from the runs of a results folder."""
    item = artefacts()[label]
    return item.build(item.load(Source(results), tier, **options))


def table_of(results: Path, label: str, tier: str = "laptop") -> Table:
    """Build a table from the runs of a results folder."""
    table = build(artefacts()[label], Source(results), tier).table
    assert table is not None
    return table


def texts(table: Table) -> list[list[str]]:
    """The cells of each row as text."""
    return [[cell.text for cell in row] for row in table.rows]


def mean_text(points: np.ndarray) -> str:
    """The mean with the sample deviation."""
    return f"{points.mean():.1f} ± {points.std(ddof=1):.1f}"


def interval_text(points: np.ndarray) -> str:
    """The mean with Student's 95 % interval."""
    low, high = stats.ttest_1samp(points, 0).confidence_interval(0.95)
    return f"{points.mean():z.1f} [{low:z.1f}, {high:z.1f}]"
