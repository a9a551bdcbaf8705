"""Seeded generation of boards by playing backwards (gym-sokoban's procedure, with verl-agent's smaller search depth).

A random walk carves the floor; then the player and the targets are placed. The boxes start on the targets, and a
depth-first search *pulls* them away. It returns the state with the largest ``box swaps x displacement``. All draws come
from one ``numpy.random.Generator``, so a seed gives the same board in every process.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bepo.core.errors import UserError
from bepo.envs.sokoban.engine import BOX, BOX_ON_TARGET, FLOOR, PLAYER, TARGET, WALL

# Cells to carve around the walker, as (row, column) offsets: two bars, an L, a square, another L.
_BRUSHES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)
_TURN = 0.35  # probability that the walker changes direction before a step
_ATTEMPTS = 1000
_Cells = tuple[int, ...]  # flat indices of cells


def generate(seed: int, dim: int = 6, boxes: int = 1, search_depth: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(fixed, state)`` of a solvable, unsolved board, each (dim, dim) int8.

    ``search_depth`` limits the number of backward moves. Raises ``UserError`` if 1,000 attempts find no board.
    """
    rng = np.random.default_rng([seed, dim, boxes, search_depth])
    for _ in range(_ATTEMPTS):
        floor = _carve(rng, dim)
        cells = np.flatnonzero(floor)
        if len(cells) < boxes + 2:
            continue
        player, *targets = (int(c) for c in rng.choice(cells, boxes + 1, replace=False))
        best = _reverse_play(floor.ravel(), dim, player, tuple(targets), search_depth)
        if best is None:
            continue
        player, placed = best
        player = _wander(rng, floor.ravel(), dim, player, placed, tuple(targets))
        return _board(floor, player, placed, targets)
    raise UserError(f"env.dim={dim}, env.boxes={boxes}: no board found in {_ATTEMPTS} attempts (seed {seed})")


def _carve(rng: np.random.Generator, dim: int) -> np.ndarray:
    """Return where the floor is, (dim, dim) bool."""
    floor = np.zeros((dim, dim), bool)
    steps = ((1, 0), (-1, 0), (0, 1), (0, -1))
    row, column = rng.integers(1, dim - 1, 2)
    direction = steps[rng.integers(4)]
    for _ in range(int(1.7 * 2 * dim)):
        if rng.random() < _TURN:
            direction = steps[rng.integers(4)]
        row = min(max(row + direction[0], 1), dim - 2)
        column = min(max(column + direction[1], 1), dim - 2)
        for dr, dc in _BRUSHES[rng.integers(len(_BRUSHES))]:
            floor[row + dr, column + dc] = True
    floor[[0, -1], :] = floor[:, [0, -1]] = False
    return floor


def _reverse_play(floor: np.ndarray, width: int, player: int, targets: _Cells, depth: int) -> tuple[int, _Cells] | None:
    """Return ``(player, boxes)`` of the best state that the search finds, or None if no box can be moved.

    The search is depth-first; a move pulls a box whenever one is behind the player.
    """
    best, best_score = None, 0
    seen: set[tuple[int, _Cells]] = set()
    stack = [(player, targets, 0, -1, depth)]
    while stack:
        player, boxes, swaps, last, left = stack.pop()
        if (player, boxes) in seen:
            continue
        seen.add((player, boxes))
        score = swaps * sum(_distance(b, t, width) for b, t in zip(boxes, targets))
        if score > best_score:
            best, best_score = (player, boxes), score
        if left == 0:
            continue
        for offset in (1, -1, width, -width):
            there, behind = player + offset, player - offset
            if not floor[there] or there in boxes:
                continue
            if behind in boxes:
                pulled = boxes.index(behind)
                moved = (*boxes[:pulled], player, *boxes[pulled + 1 :])
                stack.append((there, moved, swaps + (pulled != last), pulled, left - 1))
            else:
                stack.append((there, boxes, swaps, last, left - 1))
    return best


def _wander(
    rng: np.random.Generator, floor: np.ndarray, width: int, player: int, boxes: _Cells, targets: _Cells
) -> int:
    """Return the player's cell after 0 to 3 random moves; moves are more likely if the boxes are near the targets."""
    near = sum(_distance(b, t, width) for b, t in zip(boxes, targets)) == 1
    if rng.random() < (0.8 if near else 0.5):
        for _ in range(rng.integers(1, 4)):
            there = player + (1, -1, width, -width)[rng.integers(4)]
            if floor[there] and there not in boxes:
                player = there
    return player


def _board(floor: np.ndarray, player: int, boxes: _Cells, targets: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    fixed = np.where(floor, FLOOR, WALL).astype(np.int8)
    fixed.flat[list(targets)] = TARGET
    state = fixed.copy()
    for box in boxes:
        state.flat[box] = BOX_ON_TARGET if box in targets else BOX
    state.flat[player] = PLAYER
    return fixed, state


def _distance(a: int, b: int, width: int) -> int:
    """Return the Manhattan distance of two cells."""
    return abs(a // width - b // width) + abs(a % width - b % width)
