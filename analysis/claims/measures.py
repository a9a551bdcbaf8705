"""Measures on which claims are tested. The final success decides; the others have less noise and are shown beside it.

* ``over training``: the area under the curve of test success over updates, divided by its length (evaluation seed 0).
* ``last evaluations``: the mean of the last three evaluations (evaluation seed 0).
* ``paired``: the final success, compared between runs of one training seed. They share warm start and tasks.

The measures were declared when 12 of the 72 runs on text Sokoban were known, and no run of other claims.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd

from analysis.claims.inference import SeedValues
from analysis.data.runs import Run
from analysis.grid.table import Entry

FINAL, OVER_TRAINING, LAST = "final", "over training", "last evaluations"
OTHER_MEASURES = {OVER_TRAINING: (OVER_TRAINING, False), LAST: (LAST, False), "paired": (FINAL, True)}
"""The other measures by name: the quantity, and whether it is compared between runs of one seed."""
_LAST = 3


def measured(entry: Entry, measure: str) -> SeedValues | None:
    """Return the results of an entry; None without runs, or if it is not an average over test episodes."""
    if entry.reproduced is None:
        return None
    sample = entry.reproduced.sample
    runs = tuple("".join(sorted(run.learned for run in entry.runs if run.seed == seed)) for seed in sample.seeds)
    if measure == FINAL:
        return SeedValues(entry.key, sample.seeds, sample.per_seed, runs)
    if not entry.episodes:
        return None
    by_run = {run.seed: _MEASURES[measure](_curve(run, *entry.episodes)) for run in entry.runs}
    return SeedValues(entry.key, sample.seeds, np.array([by_run[seed] for seed in sample.seeds]), runs)


@cache
def _curve(run: Run, column: str, kind: str) -> pd.Series:
    """Return the mean of a column of the test episodes by update, in per cent."""
    rows = _tests(run)
    chosen = rows.loc[rows["kind"] == kind, :] if kind else rows
    values, updates = chosen[column].to_numpy(float), chosen["update"].to_numpy()
    return pd.Series({update: 100 * values[updates == update].mean() for update in np.unique(updates)})


@cache
def _tests(run: Run) -> pd.DataFrame:
    """Return the test episodes of the first evaluation pass."""
    rows = run.episodes
    return rows.iloc[np.flatnonzero((rows["evaluation_seed"].to_numpy() == 0) & (rows["split"].to_numpy() == "test"))]


def _area(curve: pd.Series) -> float:
    updates = curve.index.to_numpy(float)
    return float(np.trapezoid(curve, updates) / np.ptp(updates)) if len(curve) > 1 else float(curve.iloc[0])


_MEASURES: dict[str, Callable[[pd.Series], float]] = {
    OVER_TRAINING: _area,
    LAST: lambda curve: float(curve.iloc[-_LAST:].mean()),
}
