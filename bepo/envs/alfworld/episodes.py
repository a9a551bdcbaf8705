"""A batch of running games behind the interface of ``bepo.envs.Episodes``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bepo.envs import Observation, Step, Task
from bepo.envs.alfworld import compact
from bepo.envs.alfworld.augment import Memory
from bepo.envs.alfworld.engine import FastGame
from bepo.envs.alfworld.expert import Expert
from bepo.envs.alfworld.fleet import Batch, Broken, Shown, parsed_game
from bepo.rollout import Terminal

if TYPE_CHECKING:
    from bepo.envs.alfworld import ALFWorld

_log = logging.getLogger(__name__)
REWARD = 10.0  # of a success; everything else is 0
_TASK = "Your task is to: "


class ALFWorldEpisodes:
    def __init__(self, env: ALFWorld, tasks: Sequence[Task], batch: Batch) -> None:
        self._env, self._tasks, self._batch = env, tasks, batch
        self._memory = [Memory() for _ in tasks]
        self._said: list[list[str]] = [[] for _ in tasks]
        self._experts: dict[int, tuple[FastGame, Expert, int]] = {}
        self.broken: dict[int, str] = {}  # index -> why the episode could not go on
        self.observations: list[Observation] = []
        self.instructions: list[str] = []
        for i, shown in enumerate(batch.first):
            if isinstance(shown, Broken):
                self._give_up(i, shown.reason)
                shown = Shown("", ("look",), False)
            self.instructions.append(shown.feedback.partition(_TASK)[2].strip().removesuffix("."))
            self.observations.append(self._observation(i, shown, start=True))

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        commands = {i: action or "" for i, action in actions.items()}
        replies = self._batch.step({i: c for i, c in commands.items() if i not in self.broken})
        return {i: self._step(i, command, replies.get(i)) for i, command in commands.items()}

    def expert(self, index: int) -> str | None:
        """The privileged expert's next command, on a fast-engine copy of the game that follows the episode."""
        if index in self.broken:
            return None
        if index not in self._experts:
            game, loaded = parsed_game(self._tasks[index], self._env.source)
            twin = FastGame(game)
            twin.reset()
            self._experts[index] = twin, Expert(twin, loaded.traj_data), 0
        twin, expert, followed = self._experts[index]
        for command in self._said[index][followed:]:
            twin.step(command)
        self._experts[index] = twin, expert, len(self._said[index])
        return expert.command()

    def _step(self, i: int, command: str, reply: Shown | Broken | None) -> Step:
        if reply is None or isinstance(reply, Broken):
            if reply is not None:
                self._give_up(i, reply.reason)
            return Step(self.observations[i], 0.0, Terminal.NONE, 0.0, broken=True)
        self._said[i].append(command)
        self._memory[i].note(command.strip(), reply.feedback)
        self.observations[i] = self._observation(i, reply)
        terminal = Terminal.SUCCESS if reply.won else Terminal.NONE
        return Step(self.observations[i], REWARD * reply.won, terminal, float(reply.won))

    def _give_up(self, i: int, reason: str) -> None:
        self.broken[i] = reason
        _log.warning("ALFWorld: gave up %s: %s", self._tasks[i].data, reason)

    def _observation(self, i: int, shown: Shown, start: bool = False) -> Observation:
        env, memory = self._env, self._memory[i]
        admissible = tuple(c for c in shown.admissible if c != "help")
        text = shown.feedback
        if env.rendering == "compact":
            text = compact.ROOM if start else compact.shorten(text, self.instructions[i])
        if env.prompt_state == "augmented":
            text = memory.text(text)
        key = memory.key(shown.feedback, admissible) if env.graph_key == "augmented" else shown.feedback
        return Observation(text, key, admissible)
