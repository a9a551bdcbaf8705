"""Rows of tokens as a prefix tree: rows that begin alike share the nodes of what they have in common.

Sizes: n rows of at most t tokens each; u new nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

Row = Sequence[int] | Int[np.ndarray, "_"]


class PrefixTree:
    """One node for each distinct prefix of n rows.

    The rows may go on ``after`` rows of another tree, whose nodes then keep their numbers. ``path`` holds the node of
    each token of a row, padded with 0, and ``length`` the number of its tokens, those of the other tree included. The u
    nodes that are new have the numbers from ``first`` on, and each is on the path of the row in ``row`` (among others):
    there it stands at ``position``, which every path that it is on agrees about, and ``ids`` is its token.
    """

    def __init__(self, tokens: Sequence[Row], after: PrefixTree | None = None, rows: Sequence[int] = ()) -> None:
        """``tokens`` are one or more for each row; ``rows`` says which rows of the other tree they go on after."""
        grown = np.array([len(row) for row in tokens])
        begun = after.length[rows] if after else np.zeros(len(tokens), np.int64)
        self.first = after.size if after else 0
        self.length = begun + grown
        self.path = np.zeros((len(tokens), rounded_up(self.length.max())), np.int64)
        if after:
            width = min(after.path.shape[1], self.path.shape[1])
            self.path[:, :width] = after.path[rows, :width]
        table = np.full((len(tokens), 1 + grown.max()), -1, np.int32)
        table[:, 0] = self.path[np.arange(len(tokens)), begun - 1]  # the node that a row goes on from
        real = np.arange(grown.max()) < grown[:, None]
        table[:, 1:][real] = np.concatenate(tokens)
        node, new = _nodes(table, real)
        position = begun[:, None] + np.arange(grown.max())
        self.path[real.nonzero()[0], position[real]] = self.first + node[real]
        self.row = new.nonzero()[0]
        self.ids, self.position = table[:, 1:][new].astype(np.int64), position[new]
        self.size = self.first + len(self.ids)


def rounded_up(length: int) -> int:
    """Return the multiple of 16 from ``length`` on: attention on a CPU is up to 2.5 times as fast with so many keys."""
    return -(-length // 16) * 16


def _nodes(table: Int[np.ndarray, "n t_plus_1"], real: Bool[np.ndarray, "n t"]) -> tuple[np.ndarray, np.ndarray]:
    """Return the node of each token, counted from 0 row by row, and whether the token is the one that it is made for.

    Equal numbers at the beginning of rows of ``table`` are a common prefix.
    """
    # Sorted, rows that begin alike are neighbours: a token is a new node unless the row above agrees up to it.
    order = np.argsort(table.view(f"V{table.strides[0]}").ravel())
    new = real[order]
    new[1:] &= np.logical_or.accumulate(table[order[1:]] != table[order[:-1]], axis=1)[:, 1:]
    made_by = np.maximum.accumulate(np.where(new, np.arange(len(table))[:, None], 0), axis=0)
    made, node = np.empty_like(new), np.empty(new.shape, np.int64)
    made[order] = new
    number = made.cumsum().reshape(made.shape) - 1
    node[order] = np.take_along_axis(number[order], made_by, axis=0)
    return node, made
