"""Requests to a served model, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bepo.rollouts.collect import Overlong


@dataclass(frozen=True)
class Request:
    """One user message with its sampling parameters."""

    place: str  # in the evaluation: split, evaluation seed, task, trial, number of the call
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float = 1.0
    top_k: int = -1  # -1: all tokens
    stop: tuple[str, ...] = ()
    image: np.ndarray | None = None  # (H, W, 3) uint8, for ``IMAGE`` in the prompt
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """A response of the model."""

    text: str


@dataclass(frozen=True)
class Failure:
    """The reason why the endpoint gave no answer. The episode then counts as missing, never as an action."""

    reason: str


class Chat(Protocol):
    """A served model."""

    def ask(self, requests: Sequence[Request]) -> list[Answer | Failure | Overlong]:
        """Return the answer to each request, in the same order.

        The answer is ``Overlong`` if prompt and response do not fit into the model's context. Raises ``UserError`` if
        no request can succeed: a wrong key, an unknown model, an exhausted budget.
        """
        ...
