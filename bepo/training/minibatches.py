"""Divides the transitions of an update into minibatches. All backends use it, so their minibatches are equal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from bepo.core.seeds import derive_seed


def minibatches(n: int, size: int, seed: int, epoch: int) -> Iterator[Int[np.ndarray, " m"]]:
    """Yield the transitions of each optimiser step of an epoch over ``n`` transitions, in random order from ``seed``.

    Every minibatch has ``size`` transitions; the last one may have fewer.
    """
    order = np.random.default_rng(derive_seed(seed, epoch)).permutation(n)
    for start in range(0, n, size):
        yield order[start : start + size]
