"""Hidden states below the trained layers, kept from sampling for the update that follows.

Frozen weights do not change, so the states that sampling computed are the states that the update needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bepo.policies.lm.prefix_tree import PrefixTree, Row

_MOST_TOKENS = 400_000  # 0.9 GB at width 576; further states are computed again in the update


class KeptStates:
    """States of the nodes of prefix trees, found by the tokens of a row."""

    def __init__(self) -> None:
        self._states: list[Tensor] = []
        self._size = 0
        self._tree_start = 0  # number of the first state of the newest tree
        self._left_out = False  # whether a part of the newest tree is missing, so that its continuation has no numbers
        self._of_row: dict[bytes, Int[np.ndarray, " _"]] = {}  # tokens -> numbers of states

    def forget(self) -> None:
        """Remove everything."""
        self.__init__()

    def begin_tree(self) -> None:
        """Say that the next states belong to a new tree, not to the continuation of the last one."""
        self._tree_start, self._left_out = self._size, False

    def add(self, rows: Sequence[Row], tree: PrefixTree, states: Float[Tensor, "u w"]) -> None:
        """Keep the states of a tree's new nodes; ``rows`` are all tokens of its rows, those before the tree too."""
        self._left_out |= self._size + len(states) > _MOST_TOKENS
        if self._left_out:
            return
        self._states.append(states)
        self._size += len(states)
        for row, path, length in zip(rows, tree.path, tree.length.tolist()):
            self._of_row[_key(row)] = self._tree_start + path[:length]

    def of(self, rows: Sequence[Row], tree: PrefixTree) -> Float[Tensor, "u w"] | None:
        """Return the states of all nodes of a tree of ``rows``; None unless all rows are known."""
        if not all(_key(row) in self._of_row for row in rows):
            return None
        numbers = [self._of_row[_key(row)] for row in rows]
        start = np.cumsum([0, *map(len, numbers[:-1])])
        index = np.concatenate(numbers)[start[tree.row] + tree.position]
        if len(self._states) > 1:
            self._states = [torch.cat(self._states)]
        return self._states[0][torch.from_numpy(index).to(self._states[0].device)]


def _key(row: Row) -> bytes:
    return np.asarray(row, np.int32).tobytes()
