"""Tables of stored runs as text, and their numbers by numpy and scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.grid.table import Table
from analysis.output.build import build


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
