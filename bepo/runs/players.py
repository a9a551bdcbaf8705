"""Players of evaluation episodes: the interface, and the player of a backend's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from bepo.core.batch import RolloutBatch
from bepo.core.terminal import Terminal
from bepo.rollouts.collect import Sampling
from bepo.rollouts.evaluation import episode_rows, play
from bepo.rollouts.task_sets import TaskSet
from bepo.training.backends import Engine, collect_and_release

Decode = Callable[[Sequence[Sequence[int]]], list[str]]
"""Turns token ids into text, special tokens included."""


@dataclass(frozen=True)
class Pass:
    """One pass over a task set: a row and a transcript for each episode, in the order of the tasks."""

    rows: list[dict[str, Any]]
    transcripts: Iterator[dict[str, Any]]
    missing: Mapping[str, int] = field(default_factory=dict)  # episodes without an answer, by reason


class Player(Protocol):
    """Plays passes over task sets."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the engine or endpoint for ``run.json``."""
        ...

    def estimate(self, tasks: TaskSet) -> str:
        """Return the estimated cost of an evaluation in words; empty if it costs nothing."""
        ...

    def play(self, tasks: TaskSet, seed: int) -> Pass:
        """Play one episode of each task. ``seed`` determines all random draws."""
        ...

    def close(self) -> None:
        """End every process that the player started."""
        ...


class EnginePlayer:
    """Plays with the policy of a backend's engine."""

    def __init__(self, engine: Engine, sampling: Sampling, horizon: int) -> None:
        self._engine, self._sampling, self._horizon = engine, sampling, horizon

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the engine for ``run.json``."""
        return self._engine.metadata

    def estimate(self, tasks: TaskSet) -> str:
        """Return an empty text: the evaluation costs nothing."""
        return ""

    def play(self, tasks: TaskSet, seed: int) -> Pass:
        """Play one episode of each task. ``seed`` determines all random draws."""
        batch = play(partial(collect_and_release, self._engine), tasks, seed, self._sampling)
        rows = episode_rows(batch, tasks, seed, self._horizon)
        return Pass(rows, transcripts(batch, rows, self._engine.decode))

    def close(self) -> None:
        """End the engine's processes."""
        self._engine.close()


def transcripts(batch: RolloutBatch, episodes: Sequence[dict[str, Any]], decode: Decode) -> Iterator[dict[str, Any]]:
    """Yield each episode's row with ``end`` (success, failure or truncation) and ``steps``, with one entry a step.

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
    for episode, end, taken in zip(episodes, batch.terminal[batch.last], steps):
        yield episode | {"end": Terminal(end).name.lower(), "steps": taken}
