"""Aggregation as the paper nests it (supplement, "Evaluation metrics")."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import pandas as pd


@dataclass(frozen=True)
class Estimate:
    """In per cent. ``std`` is the sample deviation over ``n`` training seeds, nan for one seed."""

    mean: float
    std: float = nan
    n: int | None = None


def over_training_seeds(episodes: pd.DataFrame, column: str) -> Estimate:
    """Mean over evaluation passes within each training seed first, then mean and deviation over training seeds."""
    passes = episodes.groupby(["seed", "evaluation_seed"])[column].mean()
    per_seed = 100 * passes.groupby("seed").mean()
    return Estimate(float(per_seed.mean()), float(per_seed.std(ddof=1)), len(per_seed))
