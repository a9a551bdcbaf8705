"""Environments in Ray workers: a slow one blocks nobody else, a dead one is replaced and its episodes played again.

Workers import this file: it knows neither torch nor verl, so that sixteen of them start in seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import ray

from bepo.agents import Agent
from bepo.collect import Asked, Running, Sample
from bepo.envs import Environment, Task

NAME = "bepo-episodes"  # of the workers, each with its number
TASKS = "bepo-tasks"  # the actor that knows the tasks of the batch
_DEATHS = 4  # of workers, under one step of an episode
_PATIENCE = 300.0  # seconds for a worker to come back: a new process imports the project first
_TOKENS = ("prompt_ids", "response_ids", "logprobs", "allowed")  # of a row; verl keeps those


class Tasks:
    """The tasks of the batch that is being played, for every agent loop."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def put(self, tasks: list[Task]) -> None:
        self._tasks = tasks

    def get(self, index: int) -> Task:
        return self._tasks[index]


class Question(NamedTuple):
    """What an episode asks the policy."""

    prompt: str
    choices: tuple[str, ...]
    image: np.ndarray | None


class EpisodeWorker:
    """Many episodes, one call at a time."""

    def __init__(self, env: Environment, agent: Agent, number: int) -> None:
        self._env, self._agent, self.number = env, agent, number
        self._running: dict[str, tuple[Running, Asked]] = {}

    def start(self, key: str, task: Task, group: int, member: int, answers: Sequence[str]) -> Question | None:
        """Begin an episode and bring it to where ``answers`` lead."""
        running = Running(self._env, self._agent, [(task, group, member)])
        self._running[key] = running, running.ask()
        question = self._question(key)
        for text in answers:
            _, question = self.answer(key, text)
        return question

    def answer(self, key: str, text: str) -> tuple[dict, Question | None]:
        """The record of a step, without its tokens, and the next question, which is None where the episode ends."""
        running, asked = self._running[key]
        running.answer(asked, [Sample([], [], [], text)])
        self._running[key] = running, running.ask()
        row = {name: value for name, value in running.rows[-1].items() if name not in _TOKENS}
        return row, self._question(key)

    def _question(self, key: str) -> Question | None:
        asked = self._running[key][1]
        if not asked.active:
            del self._running[key]
            return None
        return Question(asked.prompts[0], asked.choices[0], asked.images[0])


@dataclass
class EpisodeWorkers:
    """Handles of all workers; ``restart`` makes Ray replace one that dies."""

    handles: list

    @classmethod
    def launch(cls, env: Environment, agent: Agent, n: int) -> EpisodeWorkers:
        actor = ray.remote(EpisodeWorker)
        options = [{"name": f"{NAME}-{i}", "num_cpus": 0.1, "max_restarts": -1} for i in range(n)]
        return cls([actor.options(**o).remote(env, agent, i) for i, o in enumerate(options)])

    @classmethod
    def find(cls, n: int) -> EpisodeWorkers:
        """From any process of the same Ray job."""
        return cls([ray.get_actor(f"{NAME}-{i}") for i in range(n)])


class Episode:
    """One episode, from the agent's side. Survives the death of its worker by playing its answers again."""

    def __init__(self, workers: EpisodeWorkers, key: str, task: Task, group: int, member: int) -> None:
        self._workers, self._place = workers, (key, task, group, member)
        self._first = hash((group, member)) % len(workers.handles)
        self.answers: list[str] = []
        self.restarts = 0

    @property
    def _worker(self):
        return self._workers.handles[(self._first + self.restarts) % len(self._workers.handles)]

    async def start(self) -> Question | None:
        return await self._surviving(self._start)

    async def answer(self, text: str) -> tuple[dict, Question | None]:
        found = await self._surviving(lambda: self._worker.answer.remote(self._place[0], text), before=self._start)
        self.answers.append(text)
        return found

    def _start(self):
        return self._worker.start.remote(*self._place, self.answers)

    async def _surviving(self, call, before=None):
        """``call``; where the worker is gone, the same on the next one, after ``before``."""
        try:
            return await call()
        except (ray.exceptions.RayActorError, ray.exceptions.ActorUnavailableError):
            pass
        deaths, began = 0, time.monotonic()
        while deaths < _DEATHS and time.monotonic() - began < _PATIENCE:
            self.restarts += 1
            try:
                if before is not None:
                    await before()
                return await call()
            except ray.exceptions.ActorUnavailableError:  # on its way back
                await asyncio.sleep(1)
            except ray.exceptions.RayActorError:
                deaths += 1
                await asyncio.sleep(1)
        raise RuntimeError(f"environment workers keep dying: task {self._place[1].id}, after {len(self.answers)} steps")
