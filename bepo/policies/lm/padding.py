"""Token rows of different lengths as one rectangle, and what a network makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

Rectangle = tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Rectangle:
    """Return the rows with ``pad_id`` before each up to the longest one's length, and a mask, 1 where a token is."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad_id] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def pad_right(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Rectangle:
    """Return the rows with ``pad_id`` after each up to the longest one's length, and a mask, 1 where a token is."""
    width = max(map(len, rows))
    ids = torch.tensor([list(row) + [pad_id] * (width - len(row)) for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=device)
    return ids, mask


def full(x: Tensor) -> Tensor:
    """Return ``x`` in float32 at least: where autocast is on, networks return bfloat16."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
