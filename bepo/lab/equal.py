"""The group size at which an estimator's gradient is as good as GRPO's in larger groups.

Sizes: K group sizes in increasing order, B worlds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

REFERENCE = "grpo"
"""The estimator whose gradient efficiency the others must reach."""
SIZES = (2, 3, 4, 8, 16, 32)
"""Group sizes that are measured."""
_RESAMPLES = 2000


def needed(
    sizes: Sequence[int], efficiency: Float[np.ndarray, " K *more"], wanted: Float[np.ndarray, " *more"]
) -> Float[np.ndarray, " *more"]:
    """Return the group size at which the mean efficiency reaches the wanted one.

    Between two sizes the efficiency is interpolated along log K. Returns 0 if the smallest size already reaches it, and
    infinity if no size does.
    """
    reached, places = efficiency >= wanted, np.log(np.asarray(sizes, float))
    first = np.maximum(reached.argmax(0), 1)
    low, high = (np.take_along_axis(efficiency, i[None], 0)[0] for i in (first - 1, first))
    rise = np.where(reached.any(0) & ~reached[0], high - low, 1.0)
    between = np.exp(places[first - 1] + (wanted - low) / rise * (places[first] - places[first - 1]))
    return np.where(reached[0], 0.0, np.where(reached.any(0), between, np.inf))


def needed_with_interval(
    sizes: Sequence[int], efficiency: Float[np.ndarray, "K B"], wanted: Float[np.ndarray, " B"]
) -> tuple[float, float, float]:
    """Return the group size and its 95 % interval: percentiles over 2,000 resamples of the worlds."""
    rng, n = np.random.default_rng(0), len(wanted)
    drawn = rng.integers(n, size=(_RESAMPLES, n))
    resampled = needed(sizes, efficiency[:, drawn].mean(-1), wanted[drawn].mean(-1))
    low, high = np.sort(resampled)[[int(0.025 * _RESAMPLES), int(0.975 * _RESAMPLES)]]
    size = needed(sizes, efficiency.mean(-1), wanted.mean(-1))
    return float(size), float(low), float(high)


def in_words(interval: tuple[float, float, float], sizes: Sequence[int]) -> str:
    """Return a group size with its interval, such as ``6.3 [5.9, 6.8]``; ``< 2`` and ``> 32`` beyond the sizes."""
    size, *ends = (f"< {sizes[0]}" if x == 0 else f"> {sizes[-1]}" if np.isinf(x) else f"{x:.1f}" for x in interval)
    return f"{size} [{ends[0]}, {ends[1]}]"
