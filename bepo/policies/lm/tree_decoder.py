"""The decoder of Qwen2 and Qwen3 on a prefix tree: every distinct prefix is computed once.

A hidden state depends only on the tokens up to its own, so everything except attention runs once for each node. In the
last layer, nodes whose hidden state is not needed get only keys and values. In the first layer, key and value depend
only on token and position, so they are computed once for each such pair.

Sizes: u new nodes of a tree, a nodes in all (with the tree before); p pairs of a token and a position; m all pairs, or
all nodes; n requested hidden states; hidden width w; h heads of width d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bepo.policies.lm.decoder_layer import Module, feed_forward, key, normed, query, rotary, value
from bepo.policies.lm.prefix_tree import PrefixTree
from bepo.policies.lm.tree_attention import Attention


class KVCache(NamedTuple):
    """The KV cache of a tree: keys and values by layer; the first layer has one for each pair, not for each node."""

    keys: list[Float[Tensor, "m h d"]]
    values: list[Float[Tensor, "m h d"]]
    pair_of: Int[Tensor, " a"]  # the pair of each node


def decode(
    decoder: Module,
    tree: PrefixTree,
    row: Int[np.ndarray, " n"],
    position: Int[np.ndarray, " n"],
    before: KVCache | None = None,
) -> tuple[Float[Tensor, "n w"], KVCache]:
    """Return the hidden states after the last norm at some positions of rows, and the KV cache of the whole tree.

    The positions must be new nodes. ``before`` is the cache of the tree that this one continues.
    """
    like, last = decoder.embed_tokens.weight, len(decoder.layers) - 1
    pair, pair_of = _pairs(tree)
    node, one, place = np.unique(tree.path[row, position] - tree.first, return_index=True, return_inverse=True)
    ids, positions, pair_of, asked, place = (
        torch.from_numpy(x).to(like.device) for x in (tree.ids[pair], tree.position[pair], pair_of, node, place)
    )
    cache = KVCache([], [], torch.cat([before.pair_of, pair_of + len(before.keys[0])]) if before else pair_of)
    attention = [Attention.plan(tree, tree.row, tree.position, like)] * last
    attention.append(Attention.plan(tree, row[one], position[one], like))
    attention[0] = attention[0].with_keys(cache.pair_of)

    x = decoder.embed_tokens(ids)
    rotation = rotary(decoder, x, positions)
    for i, layer in enumerate(decoder.layers):
        h = normed(x, layer.input_layernorm)
        k, v = key(layer, h, rotation), value(layer, h)
        cache.keys.append(torch.cat([before.keys[i], k]) if before else k)
        cache.values.append(torch.cat([before.values[i], v]) if before else v)
        if i == 0:
            x, h, rotation = (y.index_select(0, pair_of) for y in (x, h, rotation))
        if i == last:
            x, h, rotation = (y.index_select(0, asked) for y in (x, h, rotation))
        seen = attention[i](query(layer, h, rotation), cache.keys[i], cache.values[i])
        x = x + layer.self_attn.o_proj(seen)
        x = x + feed_forward(layer, x)
    return (normed(x, decoder.norm) * decoder.norm.weight).index_select(0, place), cache


def _pairs(tree: PrefixTree) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " u"]]:
    """Return one new node for each distinct pair of token and position, and the pair of each new node."""
    code = tree.ids * (tree.position.max() + 1) + tree.position
    return np.unique(code, return_index=True, return_inverse=True)[1:]
