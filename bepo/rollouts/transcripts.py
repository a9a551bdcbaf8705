"""Transcripts: episodes in words, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bepo.core.batch import RolloutBatch

Decode = Callable[[Sequence[Sequence[int]]], list[str]]
"""Turns token ids into text, special tokens included."""


def transcripts(batch: RolloutBatch, episodes: Sequence[dict[str, Any]], decode: Decode) -> Iterator[dict[str, Any]]:
    """Yield each episode with ``steps``, a list of what the policy read, wrote and got at every step.

    ``episodes`` has one row for each trajectory of the batch. A step has the ``prompt``, chat template included, the
    ``response``, the ``action`` that was read from it (None: none could be), the ``observation`` after it (the key of
    the state that it leads to, as the environment interns it), the ``reward``, and whether the response was ``valid``.
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
