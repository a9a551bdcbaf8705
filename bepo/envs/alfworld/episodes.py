"""A batch of running games behind the interface of ``bepo.envs.Episodes``."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bepo.core.batch import Terminal
from bepo.envs import Observation, Step, Task
from bepo.envs._walk import steps_to_success
from bepo.envs.alfworld import compact
from bepo.envs.alfworld.augment import Memory
from bepo.envs.alfworld.engine import FastGame
from bepo.envs.alfworld.expert import Expert
from bepo.envs.alfworld.games import Broken, Episode, Reply, compiled_game
from bepo.envs.alfworld.limits import Endless

if TYPE_CHECKING:
    from bepo.envs.alfworld import ALFWorld

_log = logging.getLogger(__name__)
REWARD = 10.0
"""The reward of success (verl-agent); every other step has the reward 0."""
_TASK = "Your task is to: "


class ALFWorldEpisodes:
    """A batch of running games, one for each task."""

    def __init__(self, env: ALFWorld, tasks: Sequence[Task]) -> None:
        self._env, self._tasks = env, tasks
        self._episodes = [Episode(env.engine, task, env.source) for task in tasks]
        self._memories = [Memory() for _ in tasks]
        self._commands: list[list[str]] = [[] for _ in tasks]
        self._experts: dict[int, _FollowingExpert] = {}
        self._known_steps: dict[str, dict[Hashable, float]] = {}  # by task
        self.broken: dict[int, str] = {}
        """Why an episode could not go on, for each broken episode."""
        self.observations: list[Observation] = []
        self.instructions: list[str] = []
        for i, episode in enumerate(self._episodes):
            reply = episode.start()
            if isinstance(reply, Broken):
                self._mark_broken(i, reply.reason)
                reply = Reply("", ("look",), False)
            self.instructions.append(reply.feedback.partition(_TASK)[2].strip().removesuffix("."))
            self.observations.append(self._observe(i, reply, start=True))

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Send commands to some of the games; None counts as an inadmissible command."""
        return {i: self._step(i, action or "") for i, action in actions.items()}

    def expert(self, index: int) -> str | None:
        """Return the next command of the privileged expert; None if it finds no solution or the episode is broken."""
        if index in self.broken:
            return None
        try:
            return self._expert(index).command(self._commands[index])
        except Endless as error:
            self._mark_broken(index, str(error))
            return None

    def expert_steps(self, index: int) -> float:
        """Return the number of the expert's commands from here to success; NaN if it finds no solution."""
        if index in self.broken:
            return math.nan
        known = self._known_steps.setdefault(self._tasks[index].id, {})
        return steps_to_success(self._expert(index).ahead(self._commands[index]), known)

    def _expert(self, index: int) -> _FollowingExpert:
        if index not in self._experts:
            self._experts[index] = _FollowingExpert(self._env, self._tasks[index])
        return self._experts[index]

    def _step(self, i: int, command: str) -> Step:
        reply = None if i in self.broken else self._episodes[i].step(command)
        if isinstance(reply, Broken):
            self._mark_broken(i, reply.reason)
        if not isinstance(reply, Reply):
            return Step(self.observations[i], 0.0, Terminal.NONE, 0.0, broken=True)
        self._commands[i].append(command)
        self._memories[i].update(command.strip(), reply.feedback)
        self.observations[i] = self._observe(i, reply)
        terminal = Terminal.SUCCESS if reply.won else Terminal.NONE
        return Step(self.observations[i], REWARD * reply.won, terminal, float(reply.won))

    def _mark_broken(self, i: int, reason: str) -> None:
        self.broken[i] = reason
        _log.warning("ALFWorld: the episode of %s ends, because its game is broken: %s", self._tasks[i].data, reason)

    def _observe(self, i: int, reply: Reply, start: bool = False) -> Observation:
        env, memory = self._env, self._memories[i]
        admissible = tuple(command for command in reply.admissible if command != "help")
        text = reply.feedback
        if env.rendering == "compact":
            text = compact.ROOM if start else compact.shorten(text, self.instructions[i])
        if env.prompt_state == "augmented":
            text = memory.text(text)
        key = memory.key(reply.feedback, admissible) if env.graph_key == "augmented" else reply.feedback
        return Observation(text, key, admissible)


class _FollowingExpert:
    """An expert on a copy of a game, on the fast engine, that repeats the commands of an episode."""

    def __init__(self, env: ALFWorld, task: Task) -> None:
        game, files = compiled_game(task, env.source)
        self._copy, self._facts_of_task = FastGame(game), files.traj_data
        self._copy.reset()
        self._expert = Expert(self._copy, files.traj_data)
        self._repeated = 0

    def command(self, commands: Sequence[str]) -> str | None:
        """Return the expert's next command after all commands of the episode so far."""
        self._follow(commands)
        return self._expert.command()

    def ahead(self, commands: Sequence[str]) -> _ExpertWalk:
        """Return an expert on a copy of the game after ``commands``, for looking ahead."""
        self._follow(commands)
        return _ExpertWalk(self._copy.copy(), self._facts_of_task)

    def _follow(self, commands: Sequence[str]) -> None:
        for command in commands[self._repeated :]:
            self._copy.step(command)
        self._repeated = len(commands)


class _ExpertWalk:
    """An expert with its own copy of the game, for ``steps_to_success``."""

    def __init__(self, game: FastGame, traj_data: Mapping[str, Any]) -> None:
        self._game, self._expert = game, Expert(game, traj_data)

    def key(self) -> Hashable:
        """Return the facts that commands can change, as numbers."""
        return tuple(self._game.facts.bits.values())

    def advance(self) -> bool | None:
        """Send the expert's command."""
        command = self._expert.command()
        if command is None:
            return False
        self._game.step(command)
        return self._game.won or None
