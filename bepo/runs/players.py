"""What plays the episodes of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from bepo.rollouts.collect import Sampling
from bepo.rollouts.evaluation import episode_rows, play
from bepo.rollouts.task_sets import TaskSet
from bepo.rollouts.transcripts import transcripts
from bepo.training.backend import Engine, collect_and_release


@dataclass(frozen=True)
class Pass:
    """One pass over a task set: a row an episode, and the episodes in words, in the order of the tasks."""

    rows: list[dict[str, Any]]
    transcripts: Iterator[dict[str, Any]]


class Player(Protocol):
    """Plays passes over task sets. ``facts`` go into ``run.json``, among them ``device`` and ``versions``."""

    facts: dict[str, Any]

    def play(self, tasks: TaskSet, seed: int) -> Pass:
        """Play one episode of each task; what is drawn at random follows from ``seed``."""
        ...

    def close(self) -> None:
        """End every process that it started."""
        ...


class EnginePlayer:
    """Plays with the policy of a backend's engine."""

    def __init__(self, engine: Engine, sampling: Sampling) -> None:
        self._engine, self._sampling, self.facts = engine, sampling, engine.facts

    def play(self, tasks: TaskSet, seed: int) -> Pass:
        """Play one episode of each task; every draw follows from ``seed``."""
        batch = play(partial(collect_and_release, self._engine), tasks, seed, self._sampling)
        rows = episode_rows(batch, tasks, seed)
        return Pass(rows, transcripts(batch, rows, self._engine.decode))

    def close(self) -> None:
        """End the engine's processes."""
        self._engine.close()
