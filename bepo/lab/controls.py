"""Estimates that know more than an estimator could: privileged ones, a Monte-Carlo baseline, and noise."""

from __future__ import annotations

from functools import partial

import numpy as np
from jaxtyping import Float

from bepo.lab.probe import Estimate, Probe


def exact(probe: Probe) -> Float[np.ndarray, " N"]:
    """Return the true advantage."""
    return probe.advantage


def exact_value(probe: Probe) -> Float[np.ndarray, " N"]:
    """Return the outcome minus the true value: the best that a perfect critic gives without bootstrapping."""
    return probe.rollouts.won[probe.rollouts.batch.trajectory] - probe.value


def exact_residual(probe: Probe) -> Float[np.ndarray, " N"]:
    """Return the temporal difference of true values."""
    return probe.next_value - probe.value


def continuations(probe: Probe, m: int) -> Float[np.ndarray, " N"]:
    """Return the difference of two Monte-Carlo values of m continuations each (VinePPO: Kazemnejad et al., 2024)."""
    rng = np.random.default_rng([m, len(probe.advantage)])
    after = rng.binomial(m, np.clip(probe.next_value, 0, 1)) / m
    return after - rng.binomial(m, np.clip(probe.value, 0, 1)) / m


def random(probe: Probe) -> Float[np.ndarray, " N"]:
    """Return noise."""
    return np.random.default_rng(0).standard_normal(len(probe.advantage))


CONTROLS: dict[str, Estimate] = {
    "exact": exact,
    "exact_value": exact_value,
    "exact_residual": exact_residual,
    **{f"continuations_{m}": partial(continuations, m=m) for m in (1, 4, 16)},
    "random": random,
}
