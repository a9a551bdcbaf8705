"""Interning: replace keys by small integers, in order of first appearance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int


def interner() -> Callable[[Any], int]:
    """Return a function that maps each new key to the next number, from 0, and a known key to its number."""
    seen: dict[Any, int] = {}
    return lambda key: seen.setdefault(key, len(seen))


def interned(keys: Iterable[Any]) -> Int[np.ndarray, " n"]:
    """Return the number of each key."""
    intern = interner()
    return np.array([intern(k) for k in keys], np.int32)


def interned_actions(words: Iterable[str | None]) -> tuple[Int[np.ndarray, " n"], list[str]]:
    """Return the number of each action, -1 for None, and the actions by number."""
    ids: dict[str, int] = {}
    numbers = [-1 if word is None else ids.setdefault(word, len(ids)) for word in words]
    return np.array(numbers, np.int32), list(ids)


def interned_states(
    rows: Sequence[Mapping[str, Any]], group: Int[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"], list[str], Int[np.ndarray, " S"]]:
    """Return the numbers of source and successor keys, and the key and the group of each number.

    Equal keys in two groups are two states. Each group has a contiguous range of numbers.
    """
    ids: dict[tuple[int, Any], int] = {}
    source = np.array([ids.setdefault((g, r["obs"]), len(ids)) for g, r in zip(group.tolist(), rows)], np.int32)
    target = np.array([ids.setdefault((g, r["next"]), len(ids)) for g, r in zip(group.tolist(), rows)], np.int32)
    order = sorted(ids, key=lambda key: key[0])
    rank = np.empty(len(order), np.int32)
    rank[[ids[key] for key in order]] = np.arange(len(order))
    return rank[source], rank[target], [str(k) for _, k in order], np.array([g for g, _ in order], np.int32)


def run_starts(ids: np.ndarray) -> np.ndarray:
    """Return the index at which each run of equal, neighbouring ids begins."""
    return np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
