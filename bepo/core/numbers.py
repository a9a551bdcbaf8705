"""Numbers that come from code of others: plain ones, numpy's scalars, and arrays of one number."""

from __future__ import annotations

from numbers import Real

import numpy as np

MOST_REWARD = 1e15
"""The largest size of a reward. Sums and squares of returns must be finite, or the estimator is blamed."""


def plain_number(value: object) -> int | float:
    """Return a real number as Python's own: JSON cannot hold those of numpy. An array of one number counts as one.

    Raises ``ValueError`` for anything else, such as a complex number, a text, or an array with a mask.
    """
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.ma.MaskedArray) or value.size != 1 or value.dtype.kind not in "biuf":
            raise ValueError(f"not a number: {value!r}")
        value = value.item()
    if not isinstance(value, Real):
        raise ValueError(f"not a number: {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"too large: {value!r}") from None
    return value if type(value) is int else number
