"""Seeds of independent random streams."""

from __future__ import annotations

import numpy as np


def derive_seed(*parts: int) -> int:
    """Return a seed of 63 bits made of integers; different parts give unrelated streams."""
    return int(np.random.SeedSequence([p & 0xFFFFFFFFFFFFFFFF for p in parts]).generate_state(1, np.uint64)[0] >> 1)
