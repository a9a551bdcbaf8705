"""Pads token rows of different lengths to one rectangle, and converts a network's outputs to float32."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

Rectangle = tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Rectangle:
    """Return the rows padded on the left to the longest row, and a mask: 1 for tokens, 0 for padding."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad_id] * (width - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def pad_right(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Rectangle:
    """Return the rows padded on the right to the longest row, and a mask: 1 for tokens, 0 for padding."""
    width = max(map(len, rows))
    ids = torch.tensor([list(row) + [pad_id] * (width - len(row)) for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=device)
    return ids, mask


def full(x: Tensor) -> Tensor:
    """Return ``x`` in at least float32, because networks return bfloat16 under autocast."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
