"""The parts of a decoder layer of Llama, Qwen2 and Qwen3, computed by transformers' own modules.

For pretrained weights: a weight is larger than the activations, so it is never copied, and an adapter of peft that
stands in place of a projection works. ``bepo.policies.lm.decoder_layer`` has the same parts for tiny models.

Sizes: m nodes; hidden width w; h heads of width d, rotated as d / 2 complex numbers. Keys and values may have fewer
heads than queries.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor

Module = Any  # a module of transformers; its stubs do not declare its submodules


def normed(x: Float[Tensor, "m w"], norm: Module) -> Float[Tensor, "m w"]:
    """Return ``x`` normalised by ``norm``."""
    return norm(x)


def output(x: Float[Tensor, "m w"], norm: Module) -> Float[Tensor, "m w"]:
    """Return hidden states after the last norm."""
    return norm(x)


def query(layer: Module, h: Float[Tensor, "m w"], rotation: Complex[Tensor, "m 1 half_d"]) -> Float[Tensor, "m h d"]:
    """Return rotated queries."""
    return _rotated(_heads(layer, "q", h), rotation)


def key(layer: Module, h: Float[Tensor, "m w"], rotation: Complex[Tensor, "m 1 half_d"]) -> Float[Tensor, "m h d"]:
    """Return rotated keys."""
    return _rotated(_heads(layer, "k", h), rotation)


def value(layer: Module, h: Float[Tensor, "m w"]) -> Float[Tensor, "m h d"]:
    """Return values."""
    return layer.self_attn.v_proj(h).unflatten(-1, (-1, layer.self_attn.head_dim))


def feed_forward(layer: Module, x: Float[Tensor, "m w"]) -> Float[Tensor, "m w"]:
    """Return the output of the feed-forward part, to add to ``x``."""
    return layer.mlp(layer.post_attention_layernorm(x))


def _heads(layer: Module, name: str, h: Float[Tensor, "m w"]) -> Float[Tensor, "m h d"]:
    """Return queries or keys before their rotation; Qwen3 normalises them."""
    attention = layer.self_attn
    projection, norm = getattr(attention, f"{name}_proj"), getattr(attention, f"{name}_norm", None)
    projected = projection(h).unflatten(-1, (-1, attention.head_dim))
    return projected if norm is None else norm(projected)


def _rotated(x: Float[Tensor, "m h d"], rotation: Complex[Tensor, "m 1 half_d"]) -> Float[Tensor, "m h d"]:
    """Rotate each number of the first half of a head with its counterpart in the second half."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = rotation.real, rotation.imag
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
