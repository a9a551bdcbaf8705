"""Confidence gates rho(s) in [0, 1] from local graph evidence: visits n(s) and distinct successors b(s).

Paper, Eq. confidence_gate, and supplement, "Gate Form and Step-Signal Results".
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

Counts = Int[np.ndarray, " S"]


def binary(visits: Counts, branches: Counts, n_min: int, b_min: int) -> Float[np.ndarray, " S"]:
    """Return the binary gate rho = 1[n >= n_min and b >= b_min]."""
    return ((visits >= n_min) & (branches >= b_min)).astype(float)


def ramp(count: Counts, full: int) -> Float[np.ndarray, " S"]:
    """Return c(x; k) = clip((x - 1) / (k - 1), 0, 1), with k = ``full`` >= 2."""
    return np.clip((count - 1) / (full - 1), 0.0, 1.0)


def count_ramp(visits: Counts, branches: Counts, full_visits: int) -> Float[np.ndarray, " S"]:
    """Return the soft gate rho = c(n; k) 1[b >= 2], with k = ``full_visits``."""
    return ramp(visits, full_visits) * (branches >= 2)


def count_and_branch(visits: Counts, branches: Counts, full_visits: int, full_branches: int) -> Float[np.ndarray, " S"]:
    """Return the soft gate rho = c(n; k) c(b; l); the paper has k = ``full_visits`` = 4, l = ``full_branches`` = 3."""
    return ramp(visits, full_visits) * ramp(branches, full_branches)
