"""Responses during sampling."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bepo.policies.lm.logit_mask import Trie


class Decoder(Protocol):
    """Computes the next-token logits of prompts and the responses after them."""

    def __call__(self, written: Sequence[Sequence[int]], rows: Sequence[int]) -> Float[Tensor, "n v"]:
        """Return the logits of the next token of some rows.

        ``written`` are the tokens of all responses so far. A row that was left out of a call is never asked for again.
        """
        ...


class Response:
    """A response during sampling. Tokens without an alternative are added without a draw."""

    def __init__(self, trie: Trie | None, end_ids: Collection[int], max_length: int) -> None:
        """``trie`` has the admissible responses; None allows all tokens everywhere.

        ``end_ids`` are the tokens that end a response; ``max_length`` is the maximum number of its tokens.
        """
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.entropies: list[float] = []
        self.energies: list[float] = []
        self.allowed: list[list[int]] = []  # the allowed IDs of each token, if there is a trie
        self.is_open = True
        self._trie, self._end_ids, self._max_length = trie, end_ids, max_length
        self._write_what_is_certain()

    @property
    def choices(self) -> list[int]:
        """The allowed IDs of the next token, if there is a trie."""
        return list(self._trie or ())

    @property
    def decides_once(self) -> bool:
        """Whether the next token is the last one with an alternative, whichever it is."""
        return self._trie is not None and all(map(_is_chain, self._trie.values()))

    def write(self, token: int, logprob: float, entropy: float, energy: float) -> None:
        """Add a drawn token, and the tokens that must follow it."""
        self._add(token, logprob, entropy, energy)
        self._write_what_is_certain()

    def _write_what_is_certain(self) -> None:
        while self.is_open and self._trie is not None and len(self._trie) == 1:
            self._add(next(iter(self._trie)), 0.0, 0.0, 0.0)

    def _add(self, token: int, logprob: float, entropy: float, energy: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)
        self.energies.append(energy)
        if self._trie is not None:
            self.allowed.append(self.choices)
            self._trie = self._trie[token]
        self.is_open = token not in self._end_ids and len(self.ids) < self._max_length


def _is_chain(trie: Trie) -> bool:
    """Return whether no node has an alternative."""
    return not trie or (len(trie) == 1 and all(map(_is_chain, trie.values())))


class Draw(NamedTuple):
    """The drawn tokens of n rows."""

    token: Int[Tensor, " n"]
    logprob: Float[Tensor, " n"]
    entropy: Float[Tensor, " n"]  # of the token's distribution, in nats
    energy: Float[Tensor, " n"]  # squared norm of the gradient of log p(token) by the logits: 1 - 2 p + sum of squares


def draw(logits: Float[Tensor, "n v"], uniform: Float[Tensor, " n"]) -> Draw:
    """Draw a token for each row.

    ``uniform`` are random numbers from [0, 1). The token is the first at which the distribution function exceeds them.
    """
    probabilities = logits.softmax(-1)
    below = probabilities.double().cumsum(-1)
    token = (below <= uniform.unsqueeze(1) * below[:, -1:]).sum(-1)
    chosen = probabilities.gather(1, token.unsqueeze(1)).squeeze(1)
    energy = 1 - 2 * chosen + probabilities.square().sum(-1)
    return Draw(token, chosen.log(), torch.special.entr(probabilities).sum(-1), energy)
