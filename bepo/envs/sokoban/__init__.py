"""Sokoban: push every box onto a target. Observations are text or images; rewards and rules are gym-sokoban's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.envs import IMAGE, Environment, PromptText, Split, Task, content_id, register, split_by_id
from bepo.envs.sokoban import render
from bepo.envs.sokoban.engine import visible_cells
from bepo.envs.sokoban.episodes import DIRECTIONS, SokobanEpisodes
from bepo.envs.sokoban.rooms import generate
from bepo.envs.sokoban.solver import Solver

_SEEDS = 10_000_000
_MOST_SEEDS_IN_VAIN = 30_000  # about 30 seconds; 1 board in 1,000 fits the strictest settings so far
_ROLE = "You are an expert agent playing Sokoban."
_RULES = (
    "Push every box onto a target. You can only push, never pull, one box at a time; walls block you and the boxes, so "
    "keep boxes out of corners."
)
_PROMPTS = {
    "text": PromptText(_ROLE, f"{_RULES} Symbols: {render.MEANING}.", (*render.SYMBOLS, *DIRECTIONS)),
    "rgb": PromptText(_ROLE, f"{_RULES} {render.LEGEND}", (IMAGE, *DIRECTIONS)),
}


@register
@dataclass
class Sokoban(Environment):
    """Seeded boards of ``dim`` x ``dim`` cells, split into train, validation and test by the digest of the board.

    Deviations from the paper: boards are split by content, not by seed range (82 % of the boards of verl-agent's
    validation seeds also belong to training seeds). Text observations are the default.
    """

    name: Literal["sokoban"] = "sokoban"
    dim: int = setting(6, at_least=5, at_most=30)
    """Height and width of a board in cells, walls included."""
    boxes: int = setting(1, at_least=1, at_most=20)
    """Number of boxes, and of targets."""
    search_depth: int = setting(30, at_least=1, at_most=10_000)
    """Depth of the search that places the boxes by playing backwards (verl-agent: 30, gym-sokoban: 300)."""
    horizon: int = setting(15, at_least=1, at_most=10_000)
    """Number of steps after which an episode is truncated."""
    min_solution: int = setting(1, at_least=1)
    """Leave out boards whose optimal solution has fewer moves. Boards that need more than ``horizon`` are also left
    out."""
    observation: Literal["text", "rgb"] = "text"
    """A grid of symbols, or an image with 16 x 16 pixels for each cell. States are equal if their observations are."""
    rendering: Literal["rows", "cells"] = setting("rows", neutral=True)
    """How text shows a board. ``rows``: all its rows. ``cells``: without the walls around it, with blanks between the
    symbols, so that each is a token of its own for the byte-pair encodings of pretrained models."""
    tiles: Literal["own", "gym"] = "own"
    """Images of the cells: this project's, or those of an installed gym-sokoban, as the paper's policy saw them."""

    label: ClassVar[str] = "Sokoban"
    colour: ClassVar[str] = "#117733"
    counts_expert_steps: ClassVar[bool] = True
    dashes: ClassVar[tuple[float, ...]] = (1, 1)
    shown_settings: ClassVar[tuple[str, ...]] = ("horizon", "min_solution", "observation")
    method_version: ClassVar[int] = 1
    reads_case: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rendering != "rows" and self.observation != "text":
            raise UserError(f"env.rendering={self.rendering}: needs env.observation=text, not {self.observation}")
        if self.min_solution > self.horizon:
            raise UserError(f"env.min_solution={self.min_solution}: must be at most env.horizon={self.horizon}")

    @property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt. They explain the symbols or the images."""
        return _PROMPTS[self.observation]

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the boards of a split in the order of their seeds, each once; all are solvable within the horizon.

        Raises ``UserError`` if such boards are too rare to be found.
        """
        seen, last = set(), 0
        for seed in range(_SEEDS):
            if seed - last > _MOST_SEEDS_IN_VAIN:
                raise UserError(
                    f"env.dim={self.dim}, env.boxes={self.boxes}, env.search_depth={self.search_depth}: no new board "
                    f"among {_MOST_SEEDS_IN_VAIN} takes {self.min_solution} (env.min_solution) to {self.horizon} "
                    "(env.horizon) steps"
                )
            fixed, state = generate(seed, self.dim, self.boxes, self.search_depth)
            board = render.text(visible_cells(fixed, state)[None])[0]
            task_id = content_id(board)
            if task_id in seen or split_by_id(task_id) != split:
                continue
            seen.add(task_id)
            length = Solver(fixed, state).length
            if length is not None and self.min_solution <= length <= self.horizon:
                last = seed
                yield Task(task_id, {"board": board, "solution_length": length})

    def missing(self) -> Missing | None:
        """Return ``Missing`` if gym-sokoban's tiles are chosen but not installed, else None."""
        return render.missing_gym_tiles() if self.tiles == "gym" else None

    def start(self, tasks: Sequence[Task]) -> SokobanEpisodes:
        """Start one episode for each board."""
        boards = [task.data["board"] for task in tasks]
        return SokobanEpisodes(boards, self.observation, self.tiles, self.rendering)

    def parse_action(self, text: str) -> str | None:
        """Return the first of up, down, left, right (in this order) that the text contains (verl-agent's rule)."""
        return next((word for word in DIRECTIONS if word in text.lower()), None)
