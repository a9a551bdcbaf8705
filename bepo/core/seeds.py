"""Seeds of independent random streams."""

from __future__ import annotations

import numpy as np


def derive_seed(*parts: int) -> int:
    """Return a seed of 63 bits. Equally many but different parts, each below 2^32, give unrelated streams.

    Zeros at the end do not count: ``derive_seed(1)`` is ``derive_seed(1, 0)``. A new stream takes as many parts as its
    neighbours, or ends with a number other than 0. Published numbers depend on these seeds.
    """
    return int(np.random.SeedSequence([p & 0xFFFFFFFFFFFFFFFF for p in parts]).generate_state(1, np.uint64)[0] >> 1)
