"""A decoder for padded batches, with transformers' KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import transformers
from jaxtyping import Float
from torch import Tensor

from bepo.policies.lm.padding import full, pad_left

if TYPE_CHECKING:
    from bepo.policies.lm.language_model import LanguageModel


class PaddedDecoder:
    """A ``responses.Decoder`` that pads the new tokens of each row on the left, like prompts.

    A sliding window counts padding. So a model that has one reads rows that need it again from their beginning.
    """

    def __init__(
        self, policy: LanguageModel, prompt_ids: Sequence[Sequence[int]], images: Sequence[np.ndarray | None]
    ) -> None:
        self._policy, self._prompt_ids, self._images = policy, prompt_ids, images
        self._cache = self._new_cache()
        self._read = [0] * len(prompt_ids)  # number of decoded tokens of each response
        self._inputs: dict[str, Tensor] = {}  # the network's last inputs

    def __call__(self, written: Sequence[Sequence[int]], rows: Sequence[int]) -> Float[Tensor, "n v"]:
        """Return the logits of the next token of some rows."""
        new = [ids[n:] for ids, n in zip(written, self._read)]
        self._read = [len(ids) for ids in written]
        is_padded = min(len(new[i]) for i in rows) < max(map(len, new))
        if self._inputs and is_padded and any(self._cache.is_sliding):
            self._cache, self._inputs = self._new_cache(), self._first_inputs(written)
        else:
            self._inputs = self._next_inputs(new) if self._inputs else self._first_inputs(new)
        with self._policy.autocast:
            output = self._policy.model(**self._inputs, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        return full(output.logits[list(rows), -1])

    def _new_cache(self) -> transformers.DynamicCache:
        return transformers.DynamicCache(config=self._policy.model.config)

    def _first_inputs(self, new: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        policy = self._policy
        ids, mask = pad_left([[*a, *b] for a, b in zip(self._prompt_ids, new)], policy.pad_id, policy.device)
        return policy.inputs(ids, mask, self._images, policy.model.base_model)

    def _next_inputs(self, new: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        ids, mask = pad_left(new, self._policy.pad_id, self._policy.device)
        return {
            "input_ids": ids,
            "attention_mask": torch.cat([self._inputs["attention_mask"], mask], dim=1),
            "position_ids": self._inputs["position_ids"][..., -1:] + mask.cumsum(1),
        }
