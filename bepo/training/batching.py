"""Micro-batches of transitions, and numbers of response tokens as padded grids.

Sizes: N transitions and R response tokens of a whole batch; b transitions and r response tokens (the longest response)
of one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bepo.core.batch import Tokens


def micro_batches(
    tokens: Tokens, transitions: Int[np.ndarray, " m"], max_tokens: int
) -> Iterator[Int[np.ndarray, " b"]]:
    """Cut the given transitions into micro-batches of at most ``max_tokens`` tokens, padding included.

    Transitions of similar length go together. A transition that is longer than ``max_tokens`` is a micro-batch of its
    own.
    """
    length = tokens.prompt_length[transitions] + tokens.response_length[transitions]
    transitions = transitions[np.argsort(length, kind="stable")]
    prompt, response = tokens.prompt_length[transitions], tokens.response_length[transitions]
    start = 0
    while start < len(transitions):
        sizes = np.arange(1, len(transitions) - start + 1)
        # Prompts are padded on the left and responses on the right, each to its own longest.
        width = np.maximum.accumulate(prompt[start:]) + np.maximum.accumulate(response[start:])
        fits = int((sizes * width <= max_tokens).sum())
        stop = start + max(fits, 1)
        yield transitions[start:stop]
        start = stop


def response_grid(
    tokens: Tokens, transitions: Int[np.ndarray, " b"], numbers: Float[np.ndarray, " R"], like: Float[Tensor, "b r"]
) -> Float[Tensor, "b r"]:
    """Return the numbers of the given transitions' response tokens, one row a transition, padded on the right with 0.

    ``numbers`` has one entry for each response token of the whole batch. ``like`` gives the shape and the device.
    """
    grid = np.zeros(like.shape, np.float32)
    for row, i in enumerate(transitions):
        start, stop = tokens.response_offset[i], tokens.response_offset[i + 1]
        grid[row, : stop - start] = numbers[start:stop]
    return torch.from_numpy(grid).to(like.device)
