"""The decoder of Llama, Qwen2 and Qwen3 on a prefix tree: every distinct prefix is computed once.

A hidden state depends only on the tokens up to its own, so everything except attention runs once for each node. In the
last layer, nodes whose hidden state is not needed get only keys and values. In the first layer, key and value depend
only on token and position, so they are computed once for each such pair.

Sizes: u new nodes of a tree, a nodes in all (with the tree before); p pairs of a token and a position; m all pairs, or
all nodes; n requested hidden states; hidden width w; h heads of width d (keys and values may have fewer heads).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from bepo.policies.lm.prefix_tree import PrefixTree
from bepo.policies.lm.tree_attention import Attention

Module = Any  # a module of transformers; its stubs do not declare its submodules
Numbers = Int[np.ndarray, " n"]


class LayerParts(Protocol):
    """The parts of a decoder layer: ``decoder_layer`` for tiny models, ``decoder_modules`` for pretrained weights."""

    def normed(self, x: Any, norm: Module) -> Any: ...

    def output(self, x: Any, norm: Module) -> Any: ...

    def query(self, layer: Module, h: Any, rotation: Any) -> Any: ...

    def key(self, layer: Module, h: Any, rotation: Any) -> Any: ...

    def value(self, layer: Module, h: Any) -> Any: ...

    def feed_forward(self, layer: Module, x: Any) -> Any: ...


class KVCache(NamedTuple):
    """The KV cache of a tree: keys and values by layer; the first layer has one for each pair, not for each node."""

    keys: list[Float[Tensor, "m h d"]]
    values: list[Float[Tensor, "m h d"]]
    pair_of: Int[Tensor, " a"]  # the pair of each node


class Decoded(NamedTuple):
    """What ``decode`` returns."""

    hidden: Float[Tensor, "n w"]  # after the last norm, at the requested positions
    cache: KVCache  # of the whole tree
    states: Float[Tensor, "_ w"]  # the inputs of layer ``keep`` at all new nodes; empty without ``keep``


def decode(
    decoder: Module,
    parts: LayerParts,
    tree: PrefixTree,
    row: Numbers,
    position: Numbers,
    before: KVCache | None = None,
    keep: int = 0,
) -> Decoded:
    """Return the hidden states after the last norm at some positions of rows, and the KV cache of the whole tree.

    The positions must be new nodes. ``before`` is the cache of the tree that this one continues. ``keep`` is the number
    of a layer above the first whose inputs are returned, too.
    """
    x, rotation, pair_of = _embedded(decoder, tree)
    cache = KVCache([], [], torch.cat([before.pair_of, pair_of + len(before.keys[0])]) if before else pair_of)
    asked, all_nodes, last = _Asked.of(tree, row, position, x), _attention(tree, x), len(decoder.layers) - 1
    states = x[:0]
    for i, layer in enumerate(decoder.layers):
        if i == keep > 0:
            states = x.detach()
        attention = asked.attention if i == last else all_nodes
        chosen = [pair_of] * (i == 0) + [asked.node] * (i == last)
        attention = attention.with_keys(cache.pair_of) if i == 0 else attention
        x, rotation = _layer(parts, layer, x, rotation, attention, chosen, cache, before)
    return Decoded(parts.output(x, decoder.norm).index_select(0, asked.place), cache, states)


def states_before(decoder: Module, parts: LayerParts, tree: PrefixTree, number: int) -> Float[Tensor, "u w"]:
    """Return the inputs of layer ``number``, above the first, at all nodes of a tree that continues no other."""
    x, rotation, pair_of = _embedded(decoder, tree)
    cache, attention = KVCache([], [], pair_of), _attention(tree, x)
    for i, layer in enumerate(decoder.layers[:number]):
        plan, chosen = (attention.with_keys(pair_of), [pair_of]) if i == 0 else (attention, [])
        x, rotation = _layer(parts, layer, x, rotation, plan, chosen, cache)
    return x


def decode_from(
    decoder: Module,
    parts: LayerParts,
    tree: PrefixTree,
    states: Float[Tensor, "u w"],
    number: int,
    row: Numbers,
    position: Numbers,
) -> Float[Tensor, "n w"]:
    """Return ``hidden`` of ``decode``, from the inputs of layer ``number`` at all nodes."""
    rotation = _rotary(decoder, states, torch.from_numpy(tree.position).to(states.device))
    cache, x = KVCache([], [], torch.empty(0, dtype=torch.int64)), states
    asked, all_nodes, last = _Asked.of(tree, row, position, x), _attention(tree, x), len(decoder.layers) - 1
    for i, layer in enumerate(decoder.layers[number:], number):
        attention, chosen = (asked.attention, [asked.node]) if i == last else (all_nodes, [])
        x, rotation = _layer(parts, layer, x, rotation, attention, chosen, cache)
    return parts.output(x, decoder.norm).index_select(0, asked.place)


class _Asked(NamedTuple):
    """The nodes whose hidden states are needed, each once."""

    node: Int[Tensor, " k"]
    attention: Attention
    place: Int[Tensor, " n"]  # of each request among the nodes

    @classmethod
    def of(cls, tree: PrefixTree, row: Numbers, position: Numbers, like: Tensor) -> _Asked:
        node, first, place = np.unique(tree.path[row, position] - tree.first, return_index=True, return_inverse=True)
        attention = Attention.plan(tree, row[first], position[first], like)
        return cls(torch.from_numpy(node).to(like.device), attention, torch.from_numpy(place).to(like.device))


def _layer(
    parts: LayerParts,
    layer: Module,
    x: Float[Tensor, "m w"],
    rotation: Complex[Tensor, "m 1 half_d"],
    attention: Attention,
    chosen: Sequence[Int[Tensor, " _"]],
    cache: KVCache,
    before: KVCache | None = None,
) -> tuple[Float[Tensor, "k w"], Complex[Tensor, "k 1 half_d"]]:
    """Return the output of a layer and its rotation, where they are needed, and add its keys and values to ``cache``.

    ``chosen`` are selections of the inputs, made one after another once all inputs have given keys and values.
    """
    h = parts.normed(x, layer.input_layernorm)
    k, v = parts.key(layer, h, rotation), parts.value(layer, h)
    i = len(cache.keys)
    cache.keys.append(torch.cat([before.keys[i], k]) if before else k)
    cache.values.append(torch.cat([before.values[i], v]) if before else v)
    for index in chosen:
        x, h, rotation = (y.index_select(0, index) for y in (x, h, rotation))
    seen = attention(parts.query(layer, h, rotation), cache.keys[i], cache.values[i])
    x = x + layer.self_attn.o_proj(seen)
    return x + parts.feed_forward(layer, x), rotation


def _attention(tree: PrefixTree, like: Tensor) -> Attention:
    """Return the attention of all new nodes of a tree."""
    return Attention.plan(tree, tree.row, tree.position, like)


def _embedded(decoder: Module, tree: PrefixTree) -> tuple[Tensor, Tensor, Int[Tensor, " u"]]:
    """Return embedding and rotation of each distinct pair of token and position, and the pair of each new node."""
    code = tree.ids * (tree.position.max() + 1) + tree.position
    _, pair, pair_of = np.unique(code, return_index=True, return_inverse=True)
    device = decoder.embed_tokens.weight.device
    ids, positions, of = (torch.from_numpy(x).to(device) for x in (tree.ids[pair], tree.position[pair], pair_of))
    x = decoder.embed_tokens(ids)
    return x, _rotary(decoder, x, positions), of


def _rotary(decoder: Module, x: Float[Tensor, "m w"], position: Int[Tensor, " m"]) -> Complex[Tensor, "m 1 half_d"]:
    """Return the rotary embedding at some positions: one complex number for each pair of a head's numbers."""
    cos, sin = decoder.rotary_emb(x, position.unsqueeze(0))
    half = cos.shape[-1] // 2
    return torch.complex(cos[..., :half], sin[..., :half]).transpose(0, 1)
