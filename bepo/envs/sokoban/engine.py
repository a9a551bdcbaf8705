"""Sokoban on B boards at once, in numpy; step for step equal to gym-sokoban 0.0.6."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER = range(6)
"""The codes of cells, as in gym-sokoban."""
PLAYER_ON_TARGET = 6
"""The code of a player who covers a target. Only renderings have it: ``state`` has ``PLAYER`` there, ``fixed`` has
``TARGET``."""
NO_OP = 0
ACTIONS = ("no-op", "push up", "push down", "push left", "push right")
"""The actions 0 to 4. The actions 5 to 8 move like 1 to 4, but never push."""

STEP_REWARD, BOX_REWARD, FINISH_REWARD = -0.1, 1.0, 10.0
"""The rewards of a step, of a box pushed onto a target (its negative for pushing it off), and of the solution."""


def visible_cells(
    fixed: Int[np.ndarray, "*boards h w"], state: Int[np.ndarray, "*boards h w"]
) -> Int[np.ndarray, "*boards h w"]:
    """Return the visible cells: the state, with ``PLAYER_ON_TARGET`` where a player covers a target."""
    return np.where((state == PLAYER) & (fixed == TARGET), PLAYER_ON_TARGET, state)


class Boards:
    """B boards of one size, h x w cells each.

    ``fixed`` holds walls, floor and targets; ``state`` also holds boxes and the player. Walls must surround each board,
    and it must have as many boxes as targets.
    """

    def __init__(self, fixed: Int[np.ndarray, "B h w"], state: Int[np.ndarray, "B h w"]) -> None:
        self.height, self.width = fixed.shape[1:]
        self._fixed = np.array(fixed, np.int8).reshape(len(fixed), -1)
        self._state = np.array(state, np.int8).reshape(len(state), -1)
        self._player = (self._state == PLAYER).argmax(axis=1)
        # Like gym-sokoban, count from 0 at reset, even if boxes already are on targets.
        self._on_target = np.zeros(len(fixed), int)
        self._offset = np.array([0, -self.width, self.width, -1, 1])

    def __len__(self) -> int:
        return len(self._fixed)

    @property
    def fixed(self) -> Int[np.ndarray, "B h w"]:
        """Return the walls, floor and targets."""
        return self._fixed.reshape(-1, self.height, self.width)

    @property
    def state(self) -> Int[np.ndarray, "B h w"]:
        """Return the current cells, boxes and players included."""
        return self._state.reshape(-1, self.height, self.width)

    @property
    def cells(self) -> Int[np.ndarray, "B h w"]:
        """Return the current visible cells (``visible_cells``)."""
        return visible_cells(self.fixed, self.state)

    def step(
        self, actions: Int[np.ndarray, " b"], boards: Int[np.ndarray, " b"] | None = None
    ) -> tuple[Float[np.ndarray, " b"], Bool[np.ndarray, " b"]]:
        """Act on some boards, and return ``(rewards, whether all targets are covered)``.

        ``actions`` are codes from 0 to 8 (``ACTIONS``); ``boards`` are the indices of the boards (default: all).
        """
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

    def _reward(self, at: Int[np.ndarray, " b"]) -> tuple[Float[np.ndarray, " b"], Bool[np.ndarray, " b"]]:
        covered = (self._state[at] == BOX_ON_TARGET).sum(axis=1)
        solved = covered == (self._fixed[at] == TARGET).sum(axis=1)
        change = np.sign(covered - self._on_target[at])
        self._on_target[at] = covered
        return STEP_REWARD + BOX_REWARD * change + FINISH_REWARD * solved, solved
