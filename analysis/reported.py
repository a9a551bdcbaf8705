"""The paper's published numbers, transcribed once into ``paper/reported/<label>.csv``."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.artefact import REPORTED
from analysis.stats import Estimate


@dataclass(frozen=True)
class Reported:
    type: str
    method: str
    column: str
    value: Estimate
    note: str


def reported(label: str) -> list[Reported]:
    """The published cells of a table, in its order."""
    frame = pd.read_csv(REPORTED / f"{label}.csv", dtype={"note": str}).fillna({"note": ""})
    return [
        Reported(r.type, r.method, r.column, Estimate(float(r.mean), float(r.std)), r.note) for r in frame.itertuples()
    ]
