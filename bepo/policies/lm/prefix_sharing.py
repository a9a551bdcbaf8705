"""A policy that computes the common prefixes of its prompts once.

Trajectories of one task, and steps of one trajectory, have common prefixes. ``PrefixSharingModel`` arranges a batch as
a prefix tree instead of padding it. Its numbers equal those of ``LanguageModel`` up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bepo.core.batch import Tokens
from bepo.policies.lm import decoder_layer
from bepo.policies.lm.batching import Transitions, ordered_micro_batches
from bepo.policies.lm.language_model import LanguageModel
from bepo.policies.lm.prefix_tree import PrefixTree
from bepo.policies.lm.responses import Decoder, Response
from bepo.policies.lm.tree_decoder import KVCache, LayerParts, decode


class PrefixSharingModel(LanguageModel):
    """A language model of the Qwen2, Qwen3 or Llama architecture, for text only.

    It computes in the type of its weights, on a GPU too.
    """

    parts: ClassVar[LayerParts] = decoder_layer

    def hidden(
        self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"], backbone: nn.Module
    ) -> Float[Tensor, "n w"]:
        """Return the hidden states that predict the ``asked`` response tokens, row by row."""
        rows, row, position = needed(tokens, transitions, asked)
        return decode(backbone, self.parts, PrefixTree(rows), row, position).hidden

    def _logits(self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"]) -> Float[Tensor, "n v"]:
        return self.model.lm_head(self.hidden(tokens, transitions, asked, self.model.base_model))

    def read(
        self, rows: Sequence[Sequence[int]], tree: PrefixTree, before: KVCache | None
    ) -> tuple[Float[Tensor, "n w"], KVCache]:
        """Return the hidden state after each row of a tree, and the tree's KV cache.

        ``before`` is the cache of the tree that this one continues. ``rows`` have all tokens, those before it too.
        """
        decoded = decode(self.model.base_model, self.parts, tree, np.arange(len(tree.length)), tree.length - 1, before)
        return decoded.hidden, decoded.cache

    def _decoder(
        self,
        prompt_ids: Sequence[Sequence[int]],
        images: Sequence[np.ndarray | None],
        responses: Sequence[Response],
    ) -> Decoder:
        return TreeDecoder(self, prompt_ids)

    def micro_batches(
        self, tokens: Tokens, transitions: Int[np.ndarray, " m"], max_tokens: int
    ) -> Iterator[Int[np.ndarray, " b"]]:
        """Divide transitions into micro-batches of at most ``max_tokens`` tokens."""
        return ordered_micro_batches(tokens, transitions, max_tokens)


class Needed(NamedTuple):
    """What a prefix tree must hold so that it gives the hidden states that predict some response tokens."""

    rows: list[Int[np.ndarray, " _"]]  # token IDs up to the last hidden state that is needed
    row: Int[np.ndarray, " n"]  # of each hidden state
    position: Int[np.ndarray, " n"]  # in its row


def needed(tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"]) -> Needed:
    """Return the rows, and the places of the hidden states that predict the ``asked`` response tokens, row by row."""
    rows = np.flatnonzero(asked.any(1))
    chosen, asked = np.asarray(transitions)[rows], asked[rows]
    start, prompt = tokens.transition_offset[chosen], tokens.prompt_length[chosen]
    end = start + prompt + asked.shape[1] - 1 - asked[:, ::-1].argmax(1)  # without the last asked token
    row, place = asked.nonzero()
    return Needed([tokens.ids[a:b] for a, b in zip(start, end)], row, prompt[row] - 1 + place)


class TreeDecoder:
    """A ``responses.Decoder`` that reads the new tokens of each call as a continuation of the last tree."""

    def __init__(self, policy: PrefixSharingModel, prompt_ids: Sequence[Sequence[int]]) -> None:
        self._policy, self._prompt_ids = policy, prompt_ids
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
        whole = [[*self._prompt_ids[i], *written[i]] for i in rows]
        hidden, self._cache = self._policy.read(whole, self._tree, self._cache)
        return self._policy.model.lm_head(hidden)
