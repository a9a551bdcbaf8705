"""Seeds of independent random streams."""

from __future__ import annotations

import numpy as np


def derive_seed(*parts: int) -> int:
    """Return a seed of 63 bits. Different ``parts`` of equal number, each below 2^32, give independent streams.

    Trailing zeros are ignored: ``derive_seed(1)`` equals ``derive_seed(1, 0)``. A new stream must have as many parts as
    the existing ones, or end with a number other than 0. Published numbers depend on these seeds.
    """
    return int(np.random.SeedSequence([p & 0xFFFFFFFFFFFFFFFF for p in parts]).generate_state(1, np.uint64)[0] >> 1)
