"""Episodes of games on either engine, and a cache of compiled games."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from bepo.core.errors import UserError
from bepo.envs import Task
from bepo.envs.alfworld.engine import CompiledGame, FastGame
from bepo.envs.alfworld.sources import GameFiles, Source
from bepo.envs.alfworld.textworld_engine import TextWorldGame

Engine = Literal["fast", "textworld"]
_CACHE_SIZE = 512  # compiled games, 0.2 to 0.3 MB each


class RunningGame(Protocol):
    """One episode of a game on an engine. It goes on after the goal is reached, if ``step`` is called."""

    @property
    def admissible(self) -> tuple[str, ...]:
        """Return the admissible commands, sorted."""
        ...

    @property
    def won(self) -> bool:
        """Return whether the goal is reached."""
        ...

    def reset(self) -> str:
        """Start the episode, and return the introduction, which ends with the task."""
        ...

    def step(self, command: str) -> str:
        """Act, and return the feedback."""
        ...


class Reply(NamedTuple):
    """What a game answers to a command, or at its start."""

    feedback: str
    admissible: tuple[str, ...]
    won: bool


class Broken(NamedTuple):
    """An error that ends an episode. It is returned, not raised, so that the other episodes of a batch go on."""

    reason: str


class Episode:
    """One episode of a task. Its methods raise only ``UserError``; they return ``Broken`` for all other errors."""

    def __init__(self, engine: Engine, task: Task, source: Source) -> None:
        self._engine: Engine = engine
        self._task, self._source = task, source

    def start(self) -> Reply | Broken:
        """Load the game, and return its introduction."""
        return self._attempt(lambda game: game.reset())

    def step(self, command: str) -> Reply | Broken:
        """Act, and return the game's answer."""
        return self._attempt(lambda game: game.step(command))

    @cached_property
    def _game(self) -> RunningGame:
        if self._engine == "fast":
            return FastGame(compiled_game(self._task, self._source)[0])
        return TextWorldGame(self._source.load(self._task.id, self._task.data).game_file)

    def _attempt(self, act: Callable[[RunningGame], str]) -> Reply | Broken:
        try:
            game = self._game  # loads the game, so that errors of loading are caught
            feedback = act(game)
            return Reply(feedback, game.admissible, game.won)
        except UserError:
            raise
        except Exception as error:
            return Broken(f"{type(error).__name__}: {error}")


_compiled: OrderedDict[str, tuple[CompiledGame, GameFiles]] = OrderedDict()


def compiled_game(task: Task, source: Source) -> tuple[CompiledGame, GameFiles]:
    """Return a task's game for the fast engine, and its files. Caches the 512 games that were used last."""
    game = _compiled.pop(task.id, None)
    if game is None:
        files = source.load(task.id, task.data)
        game = CompiledGame(files.game_file), files
    _compiled[task.id] = game
    if len(_compiled) > _CACHE_SIZE:
        _compiled.popitem(last=False)
    return game
