"""What an agent asks a served model, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bepo.rollouts.collect import Overlong


@dataclass(frozen=True)
class Request:
    """One user message; the sampling is sent as it stands here."""

    place: str  # of the request in the evaluation: split, evaluation seed, task, trial, number of the call
    prompt: str
    max_tokens: int
    temperature: float
    top_p: float = 1.0
    top_k: int = -1  # -1: every token
    stop: tuple[str, ...] = ()
    image: np.ndarray | None = None  # (H, W, 3) uint8, for ``IMAGE`` in the prompt
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """What the model said."""

    text: str


@dataclass(frozen=True)
class Failure:
    """Why the endpoint gave no answer. It is never an action: the episode is missing."""

    reason: str


class Chat(Protocol):
    """A served model."""

    def ask(self, requests: Sequence[Request]) -> list[Answer | Failure | Overlong]:
        """Return what came back for each request, in their order.

        A prompt that exceeds the model's context, with room for a response, gives ``Overlong``.
        Raises ``UserError`` where no request can succeed: a wrong key, an unknown model, a budget that is used up.
        """
        ...
