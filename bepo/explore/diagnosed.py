"""The diagnosis of a run, or of the methods of a study, as plain data for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np
import pandas as pd

from bepo.core.errors import UserError
from bepo.explore import diagnosis
from bepo.explore.groups import Plain
from bepo.store.run_files import StoredRun


def diagnosed(run: StoredRun) -> Plain:
    """Return the tables of ``bepo.explore.diagnosis`` of a run, and histograms of the newest stored rollouts.

    ``why`` says why histograms are missing, if they are.
    """
    summary: Plain = {
        "signals": _table("metric", diagnosis.signals(run)),
        "seconds": _table("stage", diagnosis.cost(run)),
    }
    try:
        update, terms = diagnosis.newest_terms(run)
    except UserError as problem:
        return summary | {"histograms": [], "why": str(problem).rstrip(".") + "."}
    calibrated = diagnosis.calibration(terms)
    return summary | {
        "update": update,
        "zero": float(np.mean(terms["advantage"].to_numpy() == 0)),
        "histograms": [
            {"name": name, "counts": counts.tolist(), "low": float(edges[0]), "high": float(edges[-1])}
            for name, (counts, edges) in diagnosis.histograms(terms).items()
        ],
        "calibration": None if calibrated is None else _table("bin of the value", calibrated),
    }


def diagnosed_methods(methods: Mapping[str, Sequence[StoredRun]]) -> Plain:
    """Return the metrics of the last fifth of the updates, a row for each method."""
    return {"late": _table("method", diagnosis.late_signals(methods))}


def _table(first: str, table: pd.DataFrame) -> Plain:
    """Return heads and rows; numbers that are not finite become None."""
    rows = [[str(name), *(float(x) if isfinite(x) else None for x in row)] for name, *row in table.itertuples()]
    return {"heads": [first, *map(str, table.columns)], "rows": rows}
