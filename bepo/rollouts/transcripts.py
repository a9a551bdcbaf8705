"""Transcripts: episodes in words, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bepo.core.batch import RolloutBatch

Decode = Callable[[Sequence[Sequence[int]]], list[str]]
"""Turns token ids into text, special tokens included."""


def transcripts(batch: RolloutBatch, episodes: Sequence[dict[str, Any]], decode: Decode) -> Iterator[dict[str, Any]]:
    """Yield each episode's row with ``steps``, a list with one entry for each step.

    ``episodes`` has one row for each trajectory of the batch. A step has:
    * ``prompt``, chat template included, and ``response``;
    * ``action``, as read from the response (None: not readable), and ``valid``, whether its form was valid;
    * ``observation``, the key of the next state, and ``reward``.
    """
    tokens, n = batch.language, range(len(batch))
    prompts, responses = (
        decode([tokens.prompt(i).tolist() for i in n]),
        decode([tokens.response(i).tolist() for i in n]),
    )
    actions = batch.actions
    steps: list[list[dict[str, Any]]] = [[] for _ in episodes]
    for i in n:
        steps[batch.trajectory[i]].append(
            {
                "prompt": prompts[i],
                "response": responses[i],
                "action": actions[i],
                "observation": batch.state_key[batch.next_state[i]],
                "reward": float(batch.reward[i]),
                "valid": bool(batch.valid[i]),
            }
        )
    for episode, taken in zip(episodes, steps):
        yield episode | {"steps": taken}
