"""Generated games of ALFWorld and WebShop that can be copied in any state, and worlds of all their states.

The engines are those that train agents. What an agent sees of a state is the page or the answer to its last command,
and the listed actions. Different states look alike: WebShop's page does not show which options were chosen, ALFWorld's
answer does not show what lies elsewhere. In an enumerated world this is the coarse observation, and an action is its
place in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Protocol, Self

import numpy as np

from bepo.core.errors import UserError
from bepo.envs import Task
from bepo.envs.alfworld import ALFWorld
from bepo.envs.alfworld.engine import FastGame
from bepo.envs.alfworld.expert import Expert as HouseholdExpert
from bepo.envs.alfworld.games import compiled_game
from bepo.envs.webshop import WebShop
from bepo.envs.webshop import text as webshop_text
from bepo.envs.webshop.expert import Expert as ShoppingExpert
from bepo.lab.worlds import FAILURE, SUCCESS, World

MOST_GAMES = 8000
"""Limit of the states of a game; it takes seconds to reach."""
REWARD = 10.0
"""The reward of success in both environments."""


class Game(Protocol):
    """A running game."""

    @property
    def key(self) -> Hashable:
        """The hidden state."""
        ...

    @property
    def seen(self) -> str:
        """What the agent observes."""
        ...

    @property
    def listed(self) -> tuple[str, ...]:
        """The actions that the agent may choose."""
        ...

    @property
    def expert(self) -> str | None:
        """The expert's action; None if it finds no solution."""
        ...

    def copy(self) -> Self:
        """Return a game that goes on from here without changing this one."""
        ...

    def step(self, action: str) -> bool | None:
        """Act. Return whether the episode ends in success, or None if it goes on."""
        ...


class Shopping:
    """A WebShop session."""

    def __init__(self, env: WebShop, task: Task) -> None:
        self._session, self._view = env.session(task), env.view
        queries = self._view.queries(self._session) if self._view.suggestions else ()
        self._expert = ShoppingExpert(self._session, queries)

    @property
    def key(self) -> Hashable:
        """The page with its query, product and chosen options."""
        s = self._session
        return s.page, s.query, s.page_number, s.asin, tuple(sorted(s.options.items()))

    @property
    def seen(self) -> str:
        """The page without the chosen options, WebShop's mode ``text``."""
        return webshop_text.page(self._session, "text")

    @property
    def listed(self) -> tuple[str, ...]:
        """The page's buttons, or the suggested searches."""
        return self._view.admissible(self._session)

    @property
    def expert(self) -> str | None:
        """The expert's search or click."""
        action = self._expert.action()
        return None if action is None else self._view.action(self._session, *action)

    def copy(self) -> Self:
        """Return another session in the same state."""
        twin = copy(self)
        twin._session, twin._expert = copy(self._session), copy(self._expert)
        twin._expert.session = twin._session
        return twin

    def step(self, action: str) -> bool | None:
        """Search, click or buy."""
        score = self._session.act(self._view.resolve(self._session, action))
        return None if score is None else score == 1


class Household:
    """An ALFWorld game."""

    def __init__(self, env: ALFWorld, task: Task) -> None:
        game, files = compiled_game(task, env.source)
        self._game, self._facts_of_task = FastGame(game), files.traj_data
        self.seen = self._game.reset()
        """The answer to the last command."""

    @property
    def key(self) -> Hashable:
        """The facts that commands can change, as numbers."""
        return tuple(self._game.facts.bits.values())

    @property
    def listed(self) -> tuple[str, ...]:
        """The admissible commands without ``help``."""
        return tuple(command for command in self._game.admissible if command != "help")

    @property
    def expert(self) -> str | None:
        """The expert's command."""
        return HouseholdExpert(self._game, self._facts_of_task).command()

    def copy(self) -> Self:
        """Return another game in the same state."""
        twin = copy(self)
        twin._game = self._game.copy()
        return twin

    def step(self, action: str) -> bool | None:
        """Send a command; ALFWorld never ends in failure."""
        self.seen = self._game.step(action)
        return True if self._game.won else None


def enumerated(name: str, start: Game, horizon: int) -> World:
    """Return the world of all states that a game reaches in fewer than ``horizon`` steps.

    Raises ``UserError`` if these are more than ``MOST_STATES``.
    """
    games, depth, number = [start], [0], {start.key: 0}
    moves: list[list[int]] = []
    for i, game in enumerate(games):  # grows while it is read: breadth first
        row = []
        for action in game.listed:
            after = game.copy()
            success = after.step(action)
            if success is not None:
                row.append(SUCCESS if success else FAILURE)
                continue
            there = number.setdefault(after.key, len(games)) if depth[i] < horizon - 1 else i
            if there == len(games):
                games.append(after)
                depth.append(depth[i] + 1)
            row.append(there)  # a step that reaches the limit ends the episode in any case
        moves.append(row)
        if len(games) > MOST_GAMES:
            raise UserError(
                f"{name}: more than {MOST_GAMES} states (the limit) within {depth[-1]} of {horizon} steps; choose a "
                "smaller lab.horizon, or python -m bepo.lab sampled, which does not enumerate"
            )
    return _world(name, games, moves)


def _world(name: str, games: list[Game], moves: list[list[int]]) -> World:
    """Return a world in which an action that is not listed changes nothing, as in the environments."""
    n, most = len(games), max(map(len, moves))
    following = np.tile(np.arange(n)[:, None], (1, most))
    listed = np.zeros((n, most), bool)
    for i, row in enumerate(moves):
        following[i, : len(row)] = row
        listed[i, : len(row)] = True
    coarse: list[Hashable] = [(game.seen, game.listed) for game in games]
    return World(name, following, REWARD * (following == SUCCESS), 0, coarse, [((name, i),) for i in range(n)], listed)


def shops(which: range, horizon: int) -> list[World]:
    """Return shopping goals in a generated shop of 10 products, with three searches to choose from."""
    env = WebShop(products=10, suggestions=3)
    tasks = islice(env.tasks("train"), which.start, which.stop)
    return _padded([enumerated(f"webshop{i}", Shopping(env, task), horizon) for i, task in zip(which, tasks)])


def households(which: range, horizon: int) -> list[World]:
    """Return the shortest of ALFWorld's six kinds of tasks, looking at an object under a lamp, with 8 receptacles."""
    env = ALFWorld(max_receptacles=8, task_types=["look_at_obj_in_light"])
    tasks = islice(env.tasks("train"), which.start, which.stop)
    return _padded([enumerated(f"alfworld{i}", Household(env, task), horizon) for i, task in zip(which, tasks)])


def _padded(worlds: list[World]) -> list[World]:
    """Return the worlds with equally many actions; what is added is not listed and changes nothing."""
    most = max(world.next.shape[1] for world in worlds)
    padded = []
    for world in worlds:
        more = ((0, 0), (0, most - world.next.shape[1]))
        stay = np.arange(len(world.next))[:, None]
        following = np.concatenate([world.next, np.tile(stay, (1, more[1][1]))], axis=1)
        listed = None if world.listed is None else np.pad(world.listed, more)
        padded.append(replace(world, next=following, reward=np.pad(world.reward, more), listed=listed))
    return padded


GAMES: dict[str, Callable[[range, int], list[World]]] = {"webshop": shops, "alfworld": households}
"""Families of worlds, as ``worlds.FAMILIES``."""
