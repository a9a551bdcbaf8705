"""Sokoban on B boards at once, in numpy; step for step equal to gym-sokoban 0.0.6."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER = range(6)
PLAYER_ON_TARGET = 6  # only in renderings: the state says PLAYER and the fixed room says TARGET
NO_OP = 0
ACTIONS = ("no-op", "push up", "push down", "push left", "push right")  # 5-8 are the move-only twins of 1-4

STEP_REWARD, BOX_REWARD, FINISH_REWARD = -0.1, 1.0, 10.0


class Boards:
    """B boards of one size. ``fixed`` holds walls, floor and targets; ``state`` also boxes and the player.

    All boards of a batch must have a wall border and as many boxes as targets.
    """

    def __init__(self, fixed: Int[np.ndarray, "B h w"], state: Int[np.ndarray, "B h w"]) -> None:
        self.height, self.width = fixed.shape[1:]
        self._fixed = np.array(fixed, np.int8).reshape(len(fixed), -1)
        self._state = np.array(state, np.int8).reshape(len(state), -1)
        self._player = (self._state == PLAYER).argmax(axis=1)
        # gym-sokoban counts boxes on targets from 0 at reset, whatever the board says.
        self._on_target = np.zeros(len(fixed), int)
        self._offset = np.array([0, -self.width, self.width, -1, 1])

    def __len__(self) -> int:
        return len(self._fixed)

    @property
    def fixed(self) -> Int[np.ndarray, "B h w"]:
        return self._fixed.reshape(-1, self.height, self.width)

    @property
    def state(self) -> Int[np.ndarray, "B h w"]:
        return self._state.reshape(-1, self.height, self.width)

    @property
    def cells(self) -> Int[np.ndarray, "B h w"]:
        """The state as it looks: a player on a target is ``PLAYER_ON_TARGET``."""
        on_target = (self._state == PLAYER) & (self._fixed == TARGET)
        return np.where(on_target, PLAYER_ON_TARGET, self._state).reshape(-1, self.height, self.width)

    def step(
        self, actions: Int[np.ndarray, " b"], boards: Int[np.ndarray, " b"] | None = None
    ) -> tuple[Float[np.ndarray, " b"], Bool[np.ndarray, " b"]]:
        """Act on the given boards (default: all). Actions: 0 no-op, 1-4 push or move, 5-8 move only
        (up, down, left, right). Returns reward and whether all targets are covered."""
        at = np.arange(len(self)) if boards is None else np.asarray(boards)
        actions = np.asarray(actions)
        offset = self._offset[np.where(actions > 4, actions - 4, actions)]
        here = self._player[at]
        there = here + offset
        beyond = np.clip(there + offset, 0, self._state.shape[1] - 1)
        ahead = self._state[at, there]
        free = (ahead == FLOOR) | (ahead == TARGET)
        behind = self._state[at, beyond]
        pushes = (actions >= 1) & (actions <= 4) & ((ahead == BOX) | (ahead == BOX_ON_TARGET))
        pushes &= (behind == FLOOR) | (behind == TARGET)
        b, cell = at[pushes], beyond[pushes]
        self._state[b, cell] = np.where(self._fixed[b, cell] == TARGET, BOX_ON_TARGET, BOX)
        moves = (free | pushes) & (actions != NO_OP)
        b, old, new = at[moves], here[moves], there[moves]
        self._state[b, old] = self._fixed[b, old]
        self._state[b, new] = PLAYER
        self._player[b] = new
        return self._reward(at)

    def _reward(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        covered = (self._state[at] == BOX_ON_TARGET).sum(axis=1)
        solved = covered == (self._fixed[at] == TARGET).sum(axis=1)
        change = np.sign(covered - self._on_target[at])
        self._on_target[at] = covered
        return STEP_REWARD + BOX_REWARD * change + FINISH_REWARD * solved, solved
