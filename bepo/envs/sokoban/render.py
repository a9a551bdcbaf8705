"""Renderings of Sokoban boards: text, images with one pixel for each cell, and RGB images of 16 x 16 pixel tiles.

``cells`` are codes as ``engine.visible_cells`` gives them, for B boards of h x w cells.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int, UInt8

from bepo.core.errors import Missing
from bepo.envs.sokoban.engine import BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET

TILE = 16
"""Height and width of a tile in pixels."""
SYMBOLS = "#_O√XPS"
"""The symbol of each cell code in text renderings, as in RAGEN."""
MEANING = "# wall, _ floor, O target, √ box on target, X box, P player, S player on target"
"""The explanation of the symbols in prompts."""
LEGEND = (
    "The picture shows the room from above: brown bricks are walls, black is floor, a red-framed black square with a "
    "red diamond is a target, a yellow crate with an orange cross is a box (framed in red once it is on a target), and "
    "the green figure is you (framed in red while you stand on a target)."
)
"""The explanation of the images in prompts."""
_CODES = np.array([ord(s) for s in SYMBOLS], np.uint32)
_TINY = np.array(
    [
        (0, 0, 0),
        (243, 248, 238),
        (254, 126, 125),
        (254, 95, 56),
        (142, 121, 56),
        (160, 212, 56),
        (219, 212, 56),
    ],
    np.uint8,
)
_GYM_FILES = ("wall", "floor", "box_target", "box_on_target", "box", "player", "player_on_target")


def text(cells: Int[np.ndarray, "B h w"]) -> list[str]:
    """Return one string for each board, its rows separated by newlines."""
    n, height, width = cells.shape
    codes = np.full((n, height, width + 1), ord("\n"), np.uint32)
    codes[:, :, :-1] = _CODES[cells]
    joined = np.ascontiguousarray(codes.reshape(n, -1)[:, :-1])
    return joined.view(f"U{joined.shape[1]}").ravel().tolist()


def spaced(cells: Int[np.ndarray, "B h w"]) -> list[str]:
    """Return one string for each board, with a blank between the symbols of a row."""
    return ["\n".join(map(" ".join, board.split("\n"))) for board in text(cells)]


def parse(board: str) -> tuple[Int[np.ndarray, "h w"], Int[np.ndarray, "h w"]]:
    """Return ``(fixed, state)`` of a board in text rendering, int8 arrays."""
    codes = np.array([[SYMBOLS.index(symbol) for symbol in row] for row in board.split("\n")], np.int8)
    state = np.where(codes == PLAYER_ON_TARGET, PLAYER, codes)
    targets = np.isin(codes, (TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET))
    fixed = np.where(targets, TARGET, np.minimum(codes, FLOOR))
    return fixed.astype(np.int8), state.astype(np.int8)


def tiny(cells: Int[np.ndarray, "B h w"]) -> UInt8[np.ndarray, "B h w 3"]:
    """Return gym-sokoban's ``tiny_rgb_array``: images with one pixel for each cell."""
    return _TINY[cells]


def rgb(cells: Int[np.ndarray, "B h w"], tiles: Literal["own", "gym"] = "own") -> UInt8[np.ndarray, "B 16*h 16*w 3"]:
    """Return images with 16 x 16 pixels for each cell: 96 x 96 for a board of 6 x 6 cells.

    ``gym`` uses the tiles of an installed gym-sokoban, and raises ``Missing`` if it is not installed.
    """
    n, height, width = cells.shape
    rows = _tiles(tiles).reshape(len(SYMBOLS), TILE, TILE * 3)
    out = np.empty((n, height, TILE, width, TILE * 3), np.uint8)
    for line in range(TILE):
        rows[:, line].take(cells, axis=0, out=out[:, :, line])
    return out.reshape(n, height * TILE, width * TILE, 3)


@cache
def _tiles(kind: Literal["own", "gym"]) -> UInt8[np.ndarray, "7 16 16 3"]:
    return _gym_tiles() if kind == "gym" else _own_tiles()


def missing_gym_tiles() -> Missing | None:
    """Return ``Missing`` if gym-sokoban is not installed, else None."""
    try:
        _gym_folder()
    except Missing as missing:
        return missing
    return None


def _gym_folder() -> Path:
    spec = find_spec("gym_sokoban")
    if spec is None or spec.origin is None:
        raise Missing("env.tiles=gym needs gym-sokoban", "pip install --no-deps gym-sokoban==0.0.6")
    return Path(spec.origin).parent / "envs" / "surface"


def _gym_tiles() -> UInt8[np.ndarray, "7 16 16 3"]:
    from PIL import Image

    folder = _gym_folder()
    return np.stack([np.asarray(Image.open(folder / f"{name}.png").convert("RGB")) for name in _GYM_FILES])


def _own_tiles() -> UInt8[np.ndarray, "7 16 16 3"]:
    """Draw bricks, a red diamond for a target, a crate with a cross, and a round green player."""
    row, column = np.mgrid[:TILE, :TILE]
    centre = (TILE - 1) / 2
    frame = (row == 0) | (row == TILE - 1) | (column == 0) | (column == TILE - 1)
    diamond = np.abs(row - centre) + np.abs(column - centre)
    disc = np.hypot(row - centre, column - centre)
    floor = np.zeros((TILE, TILE, 3), np.uint8)
    mortar = (row % 4 == 3) | ((column + 4 * (row // 4 % 2)) % 8 == 7)
    wall = _painted(floor, (~mortar, (139, 83, 43)), (mortar, (74, 44, 22)))
    target = _painted(floor, (frame, (200, 30, 30)), (diamond <= 3, (230, 40, 40)))
    cross = (np.abs(row - column) <= 1) | (np.abs(row + column - TILE + 1) <= 1)
    crate = _painted(floor, (row >= 0, (236, 196, 60)), (cross | frame, (214, 122, 24)))
    crate_on_target = _painted(crate, (frame, (220, 20, 20)))
    eyes = (np.abs(row - 6) <= 1) & ((np.abs(column - 5) <= 0) | (np.abs(column - 10) <= 0))
    body = ((disc <= 6.5, (70, 190, 70)), (eyes, (10, 40, 10)))
    player = _painted(floor, *body)
    player_on_target = _painted(floor, (frame, (200, 30, 30)), *body)
    return np.stack([wall, floor, target, crate_on_target, crate, player, player_on_target])


def _painted(base: np.ndarray, *layers: tuple[np.ndarray, tuple[int, int, int]]) -> np.ndarray:
    """Return a copy of a tile with each (mask, colour) painted over it in order."""
    tile = base.copy()
    for mask, colour in layers:
        tile[mask] = colour
    return tile
