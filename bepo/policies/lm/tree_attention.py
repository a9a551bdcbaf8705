"""Attention along the paths of a prefix tree, in a few padded batches.

Sizes: n queries; a nodes; m keys and values; b rows of a batch, with at most q queries and t keys each; h heads of
queries and g heads of keys and values, of width d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bepo.policies.lm.prefix_tree import PrefixTree, rounded_up

_BATCHES = 6  # rows with similar numbers of queries, then keys, share a batch, to keep padding small


class AttentionBatch(NamedTuple):
    """Rows that go through attention together."""

    queries: Int[Tensor, "b q"]  # numbers of queries, padding included
    keys: Int[Tensor, "b t"]  # nodes on the path of each row
    mask: Float[Tensor, "b 1 q t"]  # 0, or -inf where a query must not attend


class Attention(NamedTuple):
    """Attention of n queries: each attends to the nodes on its path, up to its own node."""

    batches: list[AttentionBatch]
    order: Int[Tensor, " n"]  # position of each query in the concatenated padded queries of all batches

    @classmethod
    def plan(
        cls, tree: PrefixTree, row: Int[np.ndarray, " n"], position: Int[np.ndarray, " n"], like: Tensor
    ) -> Attention:
        """Return the batches for queries at some positions of rows. ``like`` gives the queries' type and device."""
        by_row = np.argsort(row, kind="stable")
        count = np.bincount(row, minlength=len(tree.length))
        start = count.cumsum() - count
        by_size = np.lexsort((tree.length, count))
        batches, order, size = [], np.empty(len(row), np.int64), 0
        for rows in np.array_split(by_size[count[by_size] > 0], _BATCHES):
            if not len(rows):
                continue
            slot = np.arange(count[rows].max())
            real = slot < count[rows, None]
            queries = by_row[start[rows, None] + np.minimum(slot, count[rows, None] - 1)]
            at = position[queries]
            batches.append(_batch(queries, tree.path[rows, : rounded_up(at.max() + 1)], at, like))
            order[queries[real]] = size + np.flatnonzero(real)
            size += real.size
        return cls(batches, torch.from_numpy(order).to(like.device))

    def with_keys(self, number: Int[Tensor, " a"]) -> Attention:
        """Return the same attention for keys and values that are stored under other numbers of the nodes."""
        return self._replace(batches=[batch._replace(keys=number[batch.keys]) for batch in self.batches])

    def __call__(
        self, q: Float[Tensor, "n h d"], k: Float[Tensor, "m g d"], v: Float[Tensor, "m g d"]
    ) -> Float[Tensor, "n hd"]:
        """Return the output of each query, with its heads side by side."""
        queries, keys = [batch.queries for batch in self.batches], [batch.keys for batch in self.batches]
        parts = zip(_gather(q, queries), _gather(k, keys), _gather(v, keys), self.batches)
        seen = [_attend(q, k, v, batch.mask) for q, k, v, batch in parts]
        return torch.cat([x.transpose(1, 2).flatten(2).flatten(0, 1) for x in seen]).index_select(0, self.order)


def _attend(
    q: Float[Tensor, "b h q d"],
    k: Float[Tensor, "b g t d"],
    v: Float[Tensor, "b g t d"],
    mask: Float[Tensor, "b 1 q t"],
) -> Float[Tensor, "b h q d"]:
    """Return attention with as many or fewer (g) heads of keys and values than of queries.

    The h / g heads of queries that share keys follow each other as if they were further queries, so no key is copied.
    """
    if (share := q.shape[1] // k.shape[1]) == 1:
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    rows = q.unflatten(1, (-1, share)).flatten(2, 3)
    seen = nn.functional.scaled_dot_product_attention(rows, k, v, attn_mask=mask.repeat(1, 1, share, 1))
    return seen.unflatten(2, (share, -1)).flatten(1, 2)


def _batch(
    queries: Int[np.ndarray, "b q"], keys: Int[np.ndarray, "b t"], at: Int[np.ndarray, "b q"], like: Tensor
) -> AttentionBatch:
    """Return the batch of queries ``at`` some positions of the paths ``keys``."""
    hidden = torch.from_numpy(np.arange(keys.shape[1]) > at[:, None, :, None])
    mask = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, -torch.inf)
    return AttentionBatch(*(x.to(like.device) for x in (torch.from_numpy(queries), torch.from_numpy(keys), mask)))


def _gather(x: Float[Tensor, "_ h d"], numbers: Sequence[Int[Tensor, "b t"]]) -> list[Float[Tensor, "b h t d"]]:
    """Return some rows of ``x`` for each batch. One gather serves all batches, because the gradient of a gather is as
    large as ``x``."""
    rows = x.flatten(1).index_select(0, torch.cat([n.flatten() for n in numbers]))
    parts = zip(rows.split([n.numel() for n in numbers]), numbers)
    return [part.view(*n.shape, *x.shape[1:]).transpose(1, 2) for part, n in parts]
