"""Pretrained weights in this process, computed on a prefix tree. What frozen layers computed in sampling is kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bepo.core.batch import Tokens
from bepo.policies.lm import decoder_modules
from bepo.policies.lm.adapters import frozen_layers
from bepo.policies.lm.batching import Transitions
from bepo.policies.lm.kept_states import KeptStates
from bepo.policies.lm.logit_mask import Ids
from bepo.policies.lm.prefix_sharing import PrefixSharingModel, TreeDecoder, needed
from bepo.policies.lm.prefix_tree import PrefixTree
from bepo.policies.lm.responses import Decoder, Response
from bepo.policies.lm.tree_decoder import KVCache, decode, decode_from, states_before

TREE_ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Model types of transformers whose layers ``decoder_modules`` can compute."""
_MOST_LOGITS = 500_000_000  # bytes; those of further prompts are computed each time


def can_share_prefixes(model: transformers.PreTrainedModel) -> str:
    """Return why a prefix tree cannot compute a model; empty if it can."""
    config: Any = model.config
    if config.model_type not in TREE_ARCHITECTURES:
        return f"needs a model of type {', '.join(TREE_ARCHITECTURES)}, not {config.model_type!r}"
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return "" if kinds == {"full_attention"} else f"needs full attention in every layer, not {', '.join(sorted(kinds))}"


class PretrainedModel(PrefixSharingModel):
    """A pretrained language model of the Llama, Qwen2 or Qwen3 architecture, for text only.

    From one ``forget`` to the next, weights must not change, but for trained layers in an update after sampling.
    * The states below the first trained layer are kept from sampling for the update.
    * The logits of a prompt are computed once, if one token decides the response.
    """

    parts = decoder_modules

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._frozen_layers = frozen_layers(self.model)
        self._kept, self._known = KeptStates(), dict[tuple[int, ...], Float[Tensor, " v"]]()
        self._ids_of_prompt = lru_cache(maxsize=4096)(super()._chat)

    def forget(self) -> None:
        """Drop states and logits, before new rollouts and after a change of weights."""
        self._kept.forget()
        self._known.clear()

    def _tokenize(self, prompt: str, image: np.ndarray | None) -> list[int]:
        return super()._tokenize(prompt, image) if image is not None else self._ids_of_prompt(prompt)

    def hidden(
        self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"], backbone: nn.Module
    ) -> Float[Tensor, "n w"]:
        """Return the hidden states that predict the ``asked`` response tokens, row by row."""
        if not (first := self._frozen_layers):
            return super().hidden(tokens, transitions, asked, backbone)
        rows, row, position = needed(tokens, transitions, asked)
        tree = PrefixTree(rows)
        states = self._kept.of(rows, tree)
        if states is None:
            with torch.no_grad():
                states = states_before(backbone, self.parts, tree, first)
        return decode_from(backbone, self.parts, tree, states, first, row, position)

    def _choices(
        self,
        tokens: Tokens,
        transitions: Transitions,
        asked: Bool[np.ndarray, "b r"],
        allowed: Sequence[Ids] | None,
        response: Int[np.ndarray, " n"],
    ) -> tuple[Float[Tensor, "n v"], Sequence[Ids] | None, Int[np.ndarray, " n"]]:
        """Return the logits of the ``asked`` response tokens, of the tokens allowed in the batch."""
        if allowed is None:
            return super()._choices(tokens, transitions, asked, allowed, response)
        columns, head = np.unique(np.concatenate(allowed)), self.model.get_output_embeddings()
        assert isinstance(head, nn.Linear)  # so it is in the architectures of the tree
        hidden = self.hidden(tokens, transitions, asked, self.model.base_model)
        logits = hidden @ head.weight[torch.from_numpy(columns.astype(np.int64)).to(self.device)].T
        logits = logits if head.bias is None else logits + head.bias[columns]
        return logits, [np.searchsorted(columns, ids) for ids in allowed], np.searchsorted(columns, response)

    def read(
        self, rows: Sequence[Sequence[int]], tree: PrefixTree, before: KVCache | None
    ) -> tuple[Float[Tensor, "n w"], KVCache]:
        """Return the hidden state after each row of a tree, and the tree's KV cache; keep what the update needs."""
        last, first = tree.length - 1, self._frozen_layers
        decoded = decode(self.model.base_model, self.parts, tree, np.arange(len(last)), last, before, first)
        if first:
            if before is None:
                self._kept.begin_tree()
            self._kept.add(rows, tree, decoded.states)
        return decoded.hidden, decoded.cache

    def _decoder(
        self,
        prompt_ids: Sequence[Sequence[int]],
        images: Sequence[np.ndarray | None],
        responses: Sequence[Response],
    ) -> Decoder:
        if not all(response.decides_once for response in responses if response.is_open):
            return TreeDecoder(self, prompt_ids)
        return self._decide_once(prompt_ids)

    def _decide_once(self, prompt_ids: Sequence[Sequence[int]]) -> Decoder:
        """Return a decoder that is called once and computes only the rows that are not known."""

        def read(written: Sequence[Sequence[int]], rows: Sequence[int]) -> Float[Tensor, "n v"]:
            keys = [(*prompt_ids[i], *written[i]) for i in rows]
            known = {key: self._known[key] for key in keys if key in self._known}
            if new := [key for key in dict.fromkeys(keys) if key not in known]:
                logits = TreeDecoder(self, new)([[]] * len(new), range(len(new)))
                known.update(zip(new, logits))
                if (len(self._known) + len(new)) * logits[0].nbytes <= _MOST_LOGITS:
                    self._known.update(zip(new, logits))
            return torch.stack([known[key] for key in keys])

        return read
