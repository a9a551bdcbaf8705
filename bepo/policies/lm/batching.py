"""Which transitions share a micro-batch, and numbers of their response tokens as grids.

Sizes: N transitions and R response tokens of a whole batch; b transitions, k response tokens and at most r for each of
one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bepo.core.batch import Tokens

Transitions = Sequence[int] | Int[np.ndarray, " b"]  # their numbers in the batch


def padded_micro_batches(
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


def ordered_micro_batches(
    tokens: Tokens, transitions: Int[np.ndarray, " m"], max_tokens: int
) -> Iterator[Int[np.ndarray, " b"]]:
    """Cut the given transitions into micro-batches of at most ``max_tokens`` tokens without padding.

    They stay in the order of the batch, where those that begin alike are neighbours. A transition that is longer than
    ``max_tokens`` is a micro-batch of its own.
    """
    transitions = np.sort(transitions)
    end = (tokens.prompt_length[transitions] + tokens.response_length[transitions]).cumsum()
    start = 0
    while start < len(transitions):
        before = end[start - 1] if start else 0
        stop = max(int(np.searchsorted(end, before + max_tokens, side="right")), start + 1)
        yield transitions[start:stop]
        start = stop


def response_mask(tokens: Tokens, transitions: Transitions) -> Bool[np.ndarray, "b r"]:
    """Return a grid with one row a transition, True for its response tokens and False for padding on the right."""
    length = tokens.response_length[np.asarray(transitions)]
    return np.arange(length.max()) < length[:, None]


def response_places(tokens: Tokens, transitions: Transitions) -> Int[np.ndarray, " k"]:
    """Return where the response tokens of the given transitions are among those of the whole batch."""
    mask, first = response_mask(tokens, transitions), tokens.response_offset[np.asarray(transitions)]
    return (first[:, None] + np.arange(mask.shape[1]))[mask]


def response_ids(tokens: Tokens, transitions: Transitions) -> Int[np.ndarray, "b r"]:
    """Return the response tokens of the given transitions, padded on the right with any."""
    chosen = np.asarray(transitions)
    first = tokens.transition_offset[chosen] + tokens.prompt_length[chosen]
    place = first[:, None] + np.arange(tokens.response_length[chosen].max())
    return tokens.ids[np.minimum(place, len(tokens.ids) - 1)].astype(np.int64)


def free_tokens(tokens: Tokens, transitions: Transitions) -> Bool[np.ndarray, "b r"]:
    """Return which response tokens had an alternative, as a grid like that of ``response_mask``.

    Where none had, the first token of all counts as free, so that nobody meets a batch of nothing.
    """
    free = response_mask(tokens, transitions)
    if len(tokens.allowed_ids):
        free[free] = tokens.allowed_length[response_places(tokens, transitions)] != 1
        free[0, 0] |= not free.any()
    return free


def response_grid(
    tokens: Tokens, transitions: Transitions, numbers: Float[np.ndarray, " R"], like: Float[Tensor, "b r"]
) -> Float[Tensor, "b r"]:
    """Return the numbers of the given transitions' response tokens, one row a transition, padded on the right with 0.

    ``numbers`` has one entry for each response token of the whole batch. ``like`` gives the shape and the device.
    """
    grid = np.zeros(like.shape, np.float32)
    grid[response_mask(tokens, transitions)] = numbers[response_places(tokens, transitions)]
    return torch.from_numpy(grid).to(like.device)
