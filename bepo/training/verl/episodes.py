"""Environments in Ray workers. A slow environment delays only the episodes of its own worker.

Ray replaces a worker that dies. ``Episode`` then continues the episode: it replays the episode's responses on the new
worker. Environments do not need code for this.

Workers import this file. It imports neither torch nor verl, so sixteen workers start in seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import ray

from bepo.envs import Environment, Task
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import EpisodeBatch, Prompts, Sample

NAME = "bepo-episodes"  # prefix of the workers' names, followed by a number
TASKS = "bepo-tasks"  # name of the actor with the tasks of the current batch
_MAX_DEATHS = 4  # deaths of workers during one step of an episode
_MAX_SECONDS = 300.0  # until a replaced worker is ready: its process first imports the project
_TOKEN_COLUMNS = ("prompt_ids", "response_ids", "logprobs", "allowed", "entropy")  # columns that verl stores itself

T = TypeVar("T")


class Tasks:
    """The tasks of the current batch, for all agent loops; a Ray actor."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []

    def put(self, tasks: list[Task]) -> None:
        """Replace the tasks."""
        self._tasks = tasks

    def get(self, index: int) -> Task:
        """Return one task by its number in the batch."""
        return self._tasks[index]


class Prompt(NamedTuple):
    """The prompt of the next step of an episode."""

    text: str
    image: np.ndarray | None  # (H, W, 3) uint8, the picture in the text


class EpisodeWorker:
    """Runs many episodes, one call at a time; a Ray actor."""

    def __init__(self, env: Environment, agent: Agent) -> None:
        self._env, self._agent = env, agent
        self._running: dict[str, tuple[EpisodeBatch, Prompts]] = {}  # batches of one episode, by key

    def start(
        self, key: str, task: Task, group: int, member: int, needs: Sequence[str], responses: Sequence[str]
    ) -> Prompt | None:
        """Start an episode, replay ``responses``, and return the next prompt, or None if the episode is over.

        ``key`` names the episode in later calls. ``group`` and ``member`` are its position in the batch. Its rows
        have the columns ``needs``.
        """
        episode = EpisodeBatch(self._env, self._agent, [(task, group, member)], needs)
        self.drop(key)  # an earlier try to start it
        self._running[key] = episode, episode.prompts()
        prompt = self._prompt(key)
        for text in responses:
            _, prompt = self.step(key, text)
        return prompt

    def step(self, key: str, response: str) -> tuple[dict[str, Any], Prompt | None]:
        """Take the action of a response.

        Returns the transition as a row of ``RolloutBatch.from_rows``, without its tokens, and the next prompt, or None
        if the episode is over.
        """
        episode, prompts = self._running[key]
        episode.step(prompts, [Sample([], [], [], response)])
        self._running[key] = episode, episode.prompts()
        row = {name: value for name, value in episode.rows[-1].items() if name not in _TOKEN_COLUMNS}
        return row, self._prompt(key)

    def drop(self, key: str) -> None:
        """Close an episode that will not continue."""
        if key in self._running:
            self._running.pop(key)[0].close()

    def _prompt(self, key: str) -> Prompt | None:
        """Return the episode's prompt; drop an episode that is over."""
        prompts = self._running[key][1]
        if not prompts.episodes:
            self.drop(key)
            return None
        return Prompt(prompts.texts[0], prompts.images[0])


@dataclass
class EpisodeWorkers:
    """The handles of all workers. Ray restarts a worker that dies, without its episodes."""

    handles: list[Any]

    @classmethod
    def launch(cls, env: Environment, agent: Agent, n: int) -> EpisodeWorkers:
        """Start ``n`` workers."""
        actor = ray.remote(EpisodeWorker)
        options = [{"name": f"{NAME}-{i}", "num_cpus": 0.1, "max_restarts": -1} for i in range(n)]
        return cls([actor.options(**o).remote(env, agent) for o in options])

    @classmethod
    def find(cls, n: int) -> EpisodeWorkers:
        """Return the ``n`` workers that another process of the same Ray job has started."""
        return cls([ray.get_actor(f"{NAME}-{i}") for i in range(n)])


class Episode:
    """An agent loop's handle of one episode. It survives the death of its worker.

    ``responses`` are the responses so far; ``restarts`` counts how often they were replayed.
    """

    def __init__(
        self, workers: EpisodeWorkers, key: str, task: Task, group: int, member: int, needs: Sequence[str] = ()
    ) -> None:
        """``group`` and ``member`` are its position in the batch, which determines its worker."""
        self._workers, self._key, self._task, self._place = workers, key, task, (group, member)
        self._needs = needs
        self._first = hash(self._place) % len(workers.handles)
        self.responses: list[str] = []
        self.restarts = 0

    @property
    def _worker(self) -> Any:
        return self._workers.handles[(self._first + self.restarts) % len(self._workers.handles)]

    async def start(self) -> Prompt | None:
        """Start the episode, and return its first prompt. Raises ``RuntimeError`` if workers keep dying."""
        return await self._with_restarts(self._replay)

    async def step(self, response: str) -> tuple[dict[str, Any], Prompt | None]:
        """Call ``EpisodeWorker.step``. Raises ``RuntimeError`` if workers keep dying."""

        async def step() -> tuple[dict[str, Any], Prompt | None]:
            return await self._worker.step.remote(self._key, response)

        async def replay_and_step() -> tuple[dict[str, Any], Prompt | None]:
            await self._replay()
            return await step()

        result = await self._with_restarts(step, replay_and_step)
        self.responses.append(response)
        return result

    async def drop(self) -> None:
        """End the episode before it is over. A worker that died has already lost it."""
        with suppress(ray.exceptions.RayActorError, ray.exceptions.ActorUnavailableError):
            await self._worker.drop.remote(self._key)

    async def _replay(self) -> Prompt | None:
        """Start the episode on its current worker, and replay its responses."""
        return await self._worker.start.remote(self._key, self._task, *self._place, self._needs, self.responses)

    async def _with_restarts(
        self, call: Callable[[], Awaitable[T]], after_restart: Callable[[], Awaitable[T]] | None = None
    ) -> T:
        """Await ``call``. If the worker dies, await ``after_restart`` (by default ``call``) on the new worker."""
        try:
            return await call()
        except (ray.exceptions.RayActorError, ray.exceptions.ActorUnavailableError):
            pass
        deaths, began = 0, time.monotonic()
        while deaths < _MAX_DEATHS and time.monotonic() - began < _MAX_SECONDS:
            self.restarts += 1
            try:
                return await (after_restart or call)()
            except ray.exceptions.ActorUnavailableError:  # Ray is restarting it
                await asyncio.sleep(1)
            except ray.exceptions.RayActorError:
                deaths += 1
                await asyncio.sleep(1)
        raise RuntimeError(f"environment workers keep dying: task {self._task.id}, after {len(self.responses)} steps")
