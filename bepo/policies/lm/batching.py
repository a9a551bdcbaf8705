"""Divides transitions into micro-batches, and arranges values of their response tokens as grids.

Sizes: N transitions and R response tokens of a whole batch; b transitions and k response tokens of a micro-batch, with
at most r response tokens each.
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
    """Divide transitions into micro-batches of at most ``max_tokens`` tokens, padding included.

    Transitions of similar length go together. A transition longer than ``max_tokens`` gets a separate micro-batch.
    """
    length = tokens.prompt_length[transitions] + tokens.response_length[transitions]
    transitions = transitions[np.argsort(length, kind="stable")]
    prompt, response = tokens.prompt_length[transitions], tokens.response_length[transitions]
    start = 0
    while start < len(transitions):
        sizes = np.arange(1, len(transitions) - start + 1)
        # Prompts are padded on the left to the longest prompt, responses on the right to the longest response.
        width = np.maximum.accumulate(prompt[start:]) + np.maximum.accumulate(response[start:])
        fits = int((sizes * width <= max_tokens).sum())
        stop = start + max(fits, 1)
        yield transitions[start:stop]
        start = stop


def ordered_micro_batches(
    tokens: Tokens, transitions: Int[np.ndarray, " m"], max_tokens: int
) -> Iterator[Int[np.ndarray, " b"]]:
    """Divide transitions into micro-batches of at most ``max_tokens`` tokens, without padding.

    They keep the order of the batch, in which transitions with common prefixes are neighbours. A transition longer than
    ``max_tokens`` gets a separate micro-batch.
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
    """Return a grid with one row for each transition: True for response tokens, False for padding on the right."""
    length = tokens.response_length[np.asarray(transitions)]
    return np.arange(length.max()) < length[:, None]


def response_places(tokens: Tokens, transitions: Transitions) -> Int[np.ndarray, " k"]:
    """Return the positions of the transitions' response tokens among all response tokens of the batch."""
    mask, first = response_mask(tokens, transitions), tokens.response_offset[np.asarray(transitions)]
    return (first[:, None] + np.arange(mask.shape[1]))[mask]


def response_ids(tokens: Tokens, transitions: Transitions) -> Int[np.ndarray, "b r"]:
    """Return the response tokens of the transitions, padded on the right with arbitrary tokens."""
    chosen = np.asarray(transitions)
    first = tokens.transition_offset[chosen] + tokens.prompt_length[chosen]
    place = first[:, None] + np.arange(tokens.response_length[chosen].max())
    return tokens.ids[np.minimum(place, len(tokens.ids) - 1)].astype(np.int64)


def free_tokens(tokens: Tokens, transitions: Transitions) -> Bool[np.ndarray, "b r"]:
    """Return the mask of the response tokens that had an alternative, a grid like ``response_mask``.

    If no token had an alternative, the very first token counts as free: an empty batch would be an error elsewhere.
    """
    free = response_mask(tokens, transitions)
    if len(tokens.allowed_ids):
        free[free] = tokens.allowed_length[response_places(tokens, transitions)] != 1
        free[0, 0] |= not free.any()
    return free


def response_grid(
    tokens: Tokens, transitions: Transitions, numbers: Float[np.ndarray, " R"], like: Float[Tensor, "b r"]
) -> Float[Tensor, "b r"]:
    """Return the transitions' values of response tokens, one row for each transition, padded on the right with 0.

    ``numbers`` has one value for each response token of the whole batch. ``like`` gives the shape and the device.
    """
    grid = np.zeros(like.shape, np.float32)
    grid[response_mask(tokens, transitions)] = numbers[response_places(tokens, transitions)]
    return torch.from_numpy(grid).to(like.device)
