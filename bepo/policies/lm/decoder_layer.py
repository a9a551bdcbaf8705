"""The parts of a decoder layer of Qwen2 and Qwen3 for tiny models, with fewer passes over memory than in transformers.

The weight of a norm is multiplied into the projections after it, which are small compared with activations. A rotation
is one complex product.

Sizes: m nodes; hidden width w; h heads of width d, rotated as d / 2 complex numbers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor
from torch.nn.functional import linear

Module = Any  # a module of transformers; its stubs do not declare its submodules


class _UnitRMS(torch.autograd.Function):
    """Scales vectors to a root mean square of 1, like transformers, with a third of the operations.

    With h = s x and s = (mean(x^2) + eps)^(-1/2), the gradient is s (dh - h mean(h dh)).
    """

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "*m w"], eps: float) -> Float[Tensor, "*m w"]:
        square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        scale = square.div_(x.shape[-1]).add_(eps).rsqrt_()
        h = x * scale
        ctx.save_for_backward(h, scale)
        return h

    @staticmethod
    def backward(ctx: Any, *grads: Float[Tensor, "*m w"]) -> tuple[Float[Tensor, "*m w"], None]:
        (dh,), (h, scale) = grads, ctx.saved_tensors
        return torch.addcmul(dh, h, (dh * h).mean(-1, keepdim=True), value=-1).mul_(scale), None


def normed(x: Float[Tensor, "*m w"], norm: Module) -> Float[Tensor, "*m w"]:
    """Return ``x`` normalised by ``norm``, without its weight."""
    return _UnitRMS.apply(x, norm.variance_epsilon)  # pyright: ignore[reportReturnType]


def output(x: Float[Tensor, "m w"], norm: Module) -> Float[Tensor, "m w"]:
    """Return hidden states after the last norm."""
    return normed(x, norm) * norm.weight


def query(layer: Module, h: Float[Tensor, "m w"], rotation: Complex[Tensor, "m 1 half_d"]) -> Float[Tensor, "m h d"]:
    """Return rotated queries."""
    return _rotated(_by_pairs(layer, "q", h), rotation)


def key(layer: Module, h: Float[Tensor, "m w"], rotation: Complex[Tensor, "m 1 half_d"]) -> Float[Tensor, "m h d"]:
    """Return rotated keys."""
    return _rotated(_by_pairs(layer, "k", h), rotation)


def value(layer: Module, h: Float[Tensor, "m w"]) -> Float[Tensor, "m h d"]:
    """Return values."""
    attention = layer.self_attn
    weight = attention.v_proj.weight * layer.input_layernorm.weight
    return linear(h, weight, attention.v_proj.bias).unflatten(-1, (-1, attention.head_dim))


def feed_forward(layer: Module, x: Float[Tensor, "m w"]) -> Float[Tensor, "m w"]:
    """Return the output of the feed-forward part, to add to ``x``."""
    h, mlp, scale = normed(x, layer.post_attention_layernorm), layer.mlp, layer.post_attention_layernorm.weight
    gate, up = linear(h, mlp.gate_proj.weight * scale), linear(h, mlp.up_proj.weight * scale)
    return mlp.down_proj(mlp.act_fn(gate) * up)


def _by_pairs(layer: Module, name: str, h: Float[Tensor, "m w"]) -> Float[Tensor, "m h d"]:
    """Return queries or keys, reordered so that the two numbers of a rotation are neighbours; Qwen3 normalises first.

    The product of queries and keys does not change if both are reordered in the same way.
    """
    attention = layer.self_attn
    projection, norm = getattr(attention, f"{name}_proj"), getattr(attention, f"{name}_norm", None)
    order = _side_by_side(len(projection.weight), attention.head_dim, h.device)
    weight = projection.weight[order] * layer.input_layernorm.weight
    projected = linear(h, weight, None if projection.bias is None else projection.bias[order])
    projected = projected.unflatten(-1, (-1, attention.head_dim))
    return projected if norm is None else normed(projected, norm) * norm.weight[order[: attention.head_dim]]


@lru_cache
def _side_by_side(n: int, d: int, device: torch.device) -> Int[Tensor, " n"]:
    """Return the order of ``n`` numbers, ``d`` for each head, in which the two numbers of a rotation are neighbours."""
    return torch.arange(n, device=device).view(-1, 2, d // 2).transpose(1, 2).flatten()


def _rotated(x: Float[Tensor, "m h d"], rotation: Complex[Tensor, "m 1 half_d"]) -> Float[Tensor, "m h d"]:
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * rotation).flatten(-2)
