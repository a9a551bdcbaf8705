"""A breadth-first Sokoban solver. It gives the optimal length and action for every reachable state of a board."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from jaxtyping import Int

from bepo.core.errors import UserError
from bepo.envs.sokoban.engine import BOX, BOX_ON_TARGET, FLOOR, PLAYER, TARGET

Node = tuple[int, tuple[int, ...]]
"""A state: the player's cell and the sorted cells of the boxes, as flat indices."""


class Solver:
    """The distance to the goal, in moves of the player, of every reachable state of a board.

    The number of states grows like cells^(boxes + 1), so the solver is for small boards. Raises ``UserError`` for a
    board with more than ``max_states`` reachable states.
    """

    def __init__(
        self, fixed: Int[np.ndarray, "h w"], state: Int[np.ndarray, "h w"], max_states: int = 2_000_000
    ) -> None:
        self._offsets = (-fixed.shape[1], fixed.shape[1], -1, 1)
        self._floor = [c in (FLOOR, TARGET) for c in fixed.ravel()]
        self._targets = tuple(np.flatnonzero(fixed.ravel() == TARGET).tolist())
        self._max_states = max_states
        self.distance: dict[Node, int] = self._search(node(state))
        self.start = node(state)

    @property
    def length(self) -> int | None:
        """Return the number of moves of an optimal solution from the start, or None if the board is unsolvable."""
        return self.distance.get(self.start)

    def action(self, state: Int[np.ndarray, "h w"]) -> int | None:
        """Return an optimal action (1 to 4: up, down, left, right), or None if the state is solved or a dead end."""
        here = node(state)
        if here not in self.distance or self.distance[here] == 0:
            return None
        closer = self.distance[here] - 1
        after = ((action, self._after(here, offset)) for action, offset in enumerate(self._offsets, start=1))
        return next(action for action, there in after if there and self.distance.get(there) == closer)

    def steps(self, state: Int[np.ndarray, "h w"]) -> float:
        """Return the number of moves of an optimal solution from a state; NaN for a dead end."""
        return float(self.distance.get(node(state), math.nan))

    def states(self) -> list[Node]:
        """Return every reachable state that is not solved, the start first."""
        seen = {self.start: None}
        queue = deque(seen)
        while queue:
            for there in self.successors(queue.popleft()):
                if there not in seen and not self.solved(there):
                    seen[there] = None
                    queue.append(there)
        return list(seen)

    def successors(self, here: Node) -> list[Node]:
        """Return the state after each move (up, down, left, right); a blocked move changes nothing."""
        return [self._after(here, offset) or here for offset in self._offsets]

    def solved(self, here: Node) -> bool:
        """Return whether every box is on a target."""
        return here[1] == self._targets

    @property
    def targets(self) -> tuple[int, ...]:
        """The cells of the targets, as flat indices."""
        return self._targets

    def walls(self, cell: int) -> tuple[bool, ...]:
        """Return whether there is a wall above, below, to the left and to the right of a cell."""
        return tuple(not self._floor[cell + offset] for offset in self._offsets)

    def _after(self, here: Node, offset: int) -> Node | None:
        """Return the state after a move, or None if the move is blocked."""
        player, boxes = here
        there = player + offset
        if not self._floor[there]:
            return None
        if there not in boxes:
            return there, boxes
        beyond = there + offset
        if not self._floor[beyond] or beyond in boxes:
            return None
        return there, tuple(sorted(beyond if b == there else b for b in boxes))

    def _search(self, start: Node) -> dict[Node, int]:
        """Return the distances: enumerate the states forwards, then search backwards from the solved states."""
        before: dict[Node, list[Node]] = {start: []}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            if here[1] == self._targets:
                continue
            for offset in self._offsets:
                there = self._after(here, offset)
                if there is None:
                    continue
                if there not in before:
                    before[there] = []
                    queue.append(there)
                    if len(before) > self._max_states:
                        raise UserError(f"a board has more than {self._max_states} reachable states: use fewer boxes")
                before[there].append(here)
        distance = {n: 0 for n in before if n[1] == self._targets}
        queue = deque(distance)
        while queue:
            here = queue.popleft()
            for earlier in before[here]:
                if earlier not in distance:
                    distance[earlier] = distance[here] + 1
                    queue.append(earlier)
        return distance


def node(state: Int[np.ndarray, "h w"]) -> Node:
    """Return the cells of the player and the boxes in a state of ``Boards.state``."""
    flat = state.ravel()
    boxes = np.flatnonzero((flat == BOX) | (flat == BOX_ON_TARGET))
    return int((flat == PLAYER).argmax()), tuple(boxes.tolist())
