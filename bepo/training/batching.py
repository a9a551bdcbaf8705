"""Records as padded batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bepo.rollout import Tokens


def micro_batches(tokens: Tokens, records: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Records bucketed by length, so that no padded batch exceeds ``max_tokens`` (a longer record goes alone)."""
    length = tokens.prompt_length[records] + tokens.response_length[records]
    records = records[np.argsort(length, kind="stable")]
    prompt, response = tokens.prompt_length[records], tokens.response_length[records]
    start = 0
    while start < len(records):
        sizes = np.arange(1, len(records) - start + 1)
        # Prompts are padded on the left and responses on the right, each to its own longest.
        width = np.maximum.accumulate(prompt[start:]) + np.maximum.accumulate(response[start:])
        fits = int((sizes * width <= max_tokens).sum())
        stop = start + max(fits, 1)
        yield records[start:stop]
        start = stop


def grid(
    tokens: Tokens, records: np.ndarray, x: Float[np.ndarray, " R"], like: Float[Tensor, "b r"]
) -> Float[Tensor, "b r"]:
    """A number of every response token, for the given records, right-padded with 0 like ``like``."""
    out = np.zeros(like.shape, np.float32)
    for row, i in enumerate(records):
        start, stop = tokens.response_offset[i], tokens.response_offset[i + 1]
        out[row, : stop - start] = x[start:stop]
    return torch.from_numpy(out).to(like.device)
