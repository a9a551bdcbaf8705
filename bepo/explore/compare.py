"""Two runs on the same test tasks: pairs of episodes, and the first step at which their actions differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

Row = Mapping[str, Any]


def first_difference(a: Row, b: Row) -> int | None:
    """Return the first step, from 0, at which the actions differ or one episode has ended; None if all are equal."""
    taken = zip_longest(a["steps"], b["steps"])
    for t, (left, right) in enumerate(taken):
        if left is None or right is None or left["action"] != right["action"]:
            return t
    return None


def pairs(a: Sequence[Row], b: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the indices of transcripts of the same task in ``a`` and ``b``, in the order of ``a``.

    Repeated episodes of a task are paired in order.
    """
    places: dict[str, list[int]] = {}
    for j, row in enumerate(b):
        places.setdefault(row["task"], []).append(j)
    matched = []
    for i, row in enumerate(a):
        if places.get(row["task"]):
            matched.append((i, places[row["task"]].pop(0)))
    return matched
