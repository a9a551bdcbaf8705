"""A policy that computes the common prefixes of its prompts once.

Trajectories of one task, and steps of one trajectory, have common prefixes. ``PrefixSharingModel`` arranges a batch as
a prefix tree instead of padding it. Its numbers equal those of ``LanguageModel`` up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bepo.core.batch import Tokens
from bepo.policies.lm.batching import Transitions, ordered_micro_batches
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.lm.prefix_tree import PrefixTree
from bepo.policies.lm.tree_decoder import KVCache, decode


class PrefixSharingModel(LanguageModel):
    """A language model of the Qwen2 or Qwen3 architecture, for text only, with equally many key and query heads.

    It computes in the type of its weights, on a GPU too.
    """

    def hidden(
        self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"], backbone: nn.Module
    ) -> Float[Tensor, "n w"]:
        """Return the hidden states that predict the ``asked`` response tokens, row by row."""
        rows = np.flatnonzero(asked.any(1))
        chosen, asked = np.asarray(transitions)[rows], asked[rows]
        start, prompt = tokens.transition_offset[chosen], tokens.prompt_length[chosen]
        end = start + prompt + asked.shape[1] - 1 - asked[:, ::-1].argmax(1)  # without the last asked token
        tree = PrefixTree([tokens.ids[a:b] for a, b in zip(start, end)])
        row, place = asked.nonzero()
        return decode(backbone, tree, row, prompt[row] - 1 + place)[0]

    def _logits(self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"]) -> Float[Tensor, "n v"]:
        return self.model.lm_head(self.hidden(tokens, transitions, asked, self.model.base_model))

    def _decoder(self, prompt_ids: Sequence[Sequence[int]], images: Sequence[np.ndarray | None]) -> TreeDecoder:
        return TreeDecoder(self, prompt_ids)

    def micro_batches(
        self, tokens: Tokens, transitions: Int[np.ndarray, " m"], max_tokens: int
    ) -> Iterator[Int[np.ndarray, " b"]]:
        """Divide transitions into micro-batches of at most ``max_tokens`` tokens."""
        return ordered_micro_batches(tokens, transitions, max_tokens)


class TreeDecoder:
    """A ``responses.Decoder`` that reads the new tokens of each call as a continuation of the last tree."""

    def __init__(self, policy: PrefixSharingModel, prompt_ids: Sequence[Sequence[int]]) -> None:
        self._model, self._prompt_ids = policy.model, prompt_ids
        self._read = [0] * len(prompt_ids)  # number of decoded tokens of each response
        self._tree: PrefixTree | None = None
        self._rows: list[int] = []  # the rows of the tree
        self._cache: KVCache | None = None

    def __call__(self, written: Sequence[Sequence[int]], rows: Sequence[int]) -> Float[Tensor, "n v"]:
        """Return the logits of the next token of some rows."""
        new = [written[i][self._read[i] :] for i in rows]
        self._read = [len(ids) for ids in written]
        if self._tree is None:
            self._tree = PrefixTree([[*self._prompt_ids[i], *ids] for i, ids in zip(rows, new)])
        else:
            self._tree = PrefixTree(new, self._tree, [self._rows.index(i) for i in rows])
        self._rows = list(rows)
        last = self._tree.length - 1
        hidden, self._cache = decode(self._model.base_model, self._tree, np.arange(len(rows)), last, self._cache)
        return self._model.lm_head(hidden)
