"""Aggregation as the paper nests it (supplement, "Evaluation metrics")."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan, sqrt

import pandas as pd


@dataclass(frozen=True)
class Estimate:
    """In per cent. ``std`` is the sample deviation over ``n`` training seeds, nan for one seed."""

    mean: float
    std: float = nan
    n: int | None = None


def separated(a: Estimate, b: Estimate) -> bool | None:
    """Do two means differ by more than twice the standard error of their difference (Welch)? None with one seed."""
    if isnan(a.std) or isnan(b.std) or not a.n or not b.n:
        return None
    return abs(a.mean - b.mean) > 2 * sqrt(a.std**2 / a.n + b.std**2 / b.n)


def over_training_seeds(episodes: pd.DataFrame, column: str) -> Estimate:
    """Mean over evaluation passes within each training seed first, then mean and deviation over training seeds."""
    passes = episodes.groupby(["seed", "evaluation_seed"])[column].mean()
    per_seed = 100 * passes.groupby("seed").mean()
    return Estimate(float(per_seed.mean()), float(per_seed.std(ddof=1)), len(per_seed))
