"""Which transitions an optimiser step takes: every backend asks here, so their updates are of the same minibatches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from bepo.core.seeds import derive_seed


def minibatches(n: int, size: int, seed: int, epoch: int) -> Iterator[Int[np.ndarray, " m"]]:
    """Yield the transitions of each optimiser step of an epoch over ``n`` transitions, in an order that ``seed`` draws.

    Every minibatch has ``size`` transitions but the last, which has those that are left.
    """
    order = np.random.default_rng(derive_seed(seed, epoch)).permutation(n)
    for start in range(0, n, size):
        yield order[start : start + size]
