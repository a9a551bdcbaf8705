"""Seeds of independent random streams."""

from __future__ import annotations

import numpy as np


def derive_seed(*parts: int) -> int:
    """Return a seed of 63 bits made of integers. Different parts give unrelated streams, if they are equally many.

    numpy's ``SeedSequence`` ignores zeros at the end: ``derive_seed(1)`` is ``derive_seed(1, 0)``. Each use therefore
    has a fixed number of parts, or a constant that tells it apart. Published runs depend on these numbers.
    """
    return int(np.random.SeedSequence([p & 0xFFFFFFFFFFFFFFFF for p in parts]).generate_state(1, np.uint64)[0] >> 1)
