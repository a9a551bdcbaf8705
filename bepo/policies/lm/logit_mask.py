"""The logit mask: it restricts the sampling distribution by temperature, top-k, top-p and admissible actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bepo.core.batch import Tokens
from bepo.policies.lm.batching import Transitions, response_mask, response_places
from bepo.rollouts.collect import Sampling

Ids = Sequence[int] | Int[np.ndarray, "_"]
Trie = dict[int, Any]  # token ID -> trie of the tokens that may follow


def mask_logits(
    logits: Float[Tensor, "n v"], sampling: Sampling, allowed: Sequence[Ids] | None
) -> Float[Tensor, "n v"]:
    """Return the logits of the restricted distribution: -inf for tokens that cannot be sampled.

    ``allowed`` lists the allowed IDs of each of the n tokens; None allows all v tokens of the vocabulary.
    """
    if allowed is not None:
        forbidden = torch.ones(logits.shape, dtype=torch.bool)
        rows = np.repeat(np.arange(len(allowed)), [len(ids) for ids in allowed])
        forbidden[rows, np.concatenate(allowed).astype(np.int64)] = False
        logits = logits.masked_fill(forbidden.to(logits.device), -torch.inf)
    logits = logits / sampling.temperature
    warpers: list[Any] = []  # their stubs ask for the preceding IDs too, which they do not read
    if sampling.top_k > 0:
        warpers.append(transformers.TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(transformers.TopPLogitsWarper(sampling.top_p))
    for warper in warpers:
        logits = warper(None, logits)
    return logits


def allowed_ids(tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"]) -> list[Ids] | None:
    """Return the allowed IDs of the ``asked`` response tokens, row by row.

    None means that no token of the batch was restricted.
    """
    if not len(tokens.allowed_ids):
        return None
    places = response_places(tokens, transitions)[asked[response_mask(tokens, transitions)]]
    offset = tokens.allowed_offset
    return [tokens.allowed_ids[offset[j] : offset[j + 1]] for j in places]


def token_trie(responses: Iterable[Sequence[int]]) -> Trie:
    """Return the responses as a prefix tree: the keys of a node are the token IDs that can follow it."""
    root: Trie = {}
    for ids in responses:
        node = root
        for token in ids:
            node = node.setdefault(token, {})
    return root
