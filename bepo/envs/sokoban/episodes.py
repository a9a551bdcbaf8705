"""A batch of Sokoban episodes behind the interface of ``bepo.envs.Episodes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int

from bepo.core.batch import Terminal
from bepo.envs import IMAGE, Observation, Step
from bepo.envs.sokoban import render
from bepo.envs.sokoban.engine import NO_OP, Boards
from bepo.envs.sokoban.solver import Solver
from bepo.store.files import digest

DIRECTIONS = ("up", "down", "left", "right")
"""The actions. Their codes in the engine are 1 to 4."""
_CODE = {None: NO_OP} | {word: code for code, word in enumerate(DIRECTIONS, start=1)}


class SokobanEpisodes:
    """A batch of episodes on boards of one size that step together."""

    def __init__(
        self,
        boards: Sequence[str],
        observation: Literal["text", "rgb"],
        tiles: Literal["own", "gym"],
        rendering: Literal["rows", "cells"] = "rows",
    ) -> None:
        """Start on boards in text rendering; the other arguments are settings of ``Sokoban``."""
        self._observation, self._rendering = observation, rendering
        self._tiles: Literal["own", "gym"] = tiles
        fixed, state = zip(*(render.parse(text) for text in boards))
        self._boards = Boards(np.stack(fixed), np.stack(state))
        self._start = self._boards.state.copy()
        self._solvers: dict[int, Solver] = {}  # by episode
        self._solver_of_board: dict[bytes, Solver] = {}
        self.observations = self._observe(np.arange(len(boards)))
        self.instructions = [""] * len(boards)

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Move in some episodes (episode -> direction); None stands still but counts as a step."""
        indices = np.fromiter(actions, int, len(actions))
        codes = np.array([_CODE[action] for action in actions.values()])
        rewards, solved = self._boards.step(codes, indices)
        steps = {}
        observations = self._observe(indices)
        for i, observation, reward, done in zip(indices.tolist(), observations, rewards.tolist(), solved.tolist()):
            self.observations[i] = observation
            terminal = Terminal.SUCCESS if done else Terminal.NONE
            steps[i] = Step(observation, reward, terminal, float(done))
        return steps

    def expert(self, index: int) -> str | None:
        """Return an optimal move, or None if the board can no longer be solved."""
        code = self._solver(index).action(self._boards.state[index])
        return None if code is None else DIRECTIONS[code - 1]

    def expert_steps(self, index: int) -> float:
        """Return the number of moves of an optimal solution from here, or NaN in a dead end."""
        return self._solver(index).steps(self._boards.state[index])

    def _solver(self, index: int) -> Solver:
        """Return the solver of an episode's board; equal boards share one."""
        if index not in self._solvers:
            board = self._boards.fixed[index].tobytes() + self._start[index].tobytes()
            if board not in self._solver_of_board:
                self._solver_of_board[board] = Solver(self._boards.fixed[index], self._start[index])
            self._solvers[index] = self._solver_of_board[board]
        return self._solvers[index]

    def _observe(self, indices: Int[np.ndarray, " b"]) -> list[Observation]:
        cells = self._boards.cells[indices]
        if self._observation == "text":
            shown = render.text(cells) if self._rendering == "rows" else render.spaced(cells[:, 1:-1, 1:-1])
            return [Observation(text, key, DIRECTIONS) for text, key in zip(shown, render.text(cells))]
        images = render.rgb(cells, self._tiles)
        return [Observation(IMAGE, digest(image.tobytes(), 16), DIRECTIONS, image) for image in images]
