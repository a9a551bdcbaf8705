"""Counts the steps that an expert needs, by following it on a copy of an episode."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Protocol

MOST_STEPS = 200
"""An expert that has not succeeded after so many steps counts as having no solution."""


class Walk(Protocol):
    """An expert on a copy of an episode."""

    def key(self) -> Hashable:
        """Return a key of the current state: the expert acts alike from states with equal keys."""
        ...

    def advance(self) -> bool | None:
        """Take the expert's step. Return True for success, False if it fails or has no step, None to go on."""
        ...


def steps_to_success(walk: Walk, known: dict[Hashable, float]) -> float:
    """Follow the expert to the end, and return the number of its steps; NaN if it does not succeed.

    ``known`` caches these numbers by state; the numbers of all states on the way are added to it.
    """
    path: dict[Hashable, None] = {}
    rest: float | None = None
    while rest is None:
        key = walk.key()
        if key in known:
            rest = known[key]
        elif key in path or len(path) == MOST_STEPS:
            rest = math.nan
        else:
            path[key] = None
            success = walk.advance()
            rest = None if success is None else 0.0 if success else math.nan
    for key in reversed(path):
        rest += 1
        known[key] = rest
    return rest
