"""Makes Gymnasium's environments from the settings, and reads their observations."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from importlib import import_module
from typing import Any

from bepo.core.errors import UserError, unknown_choice
from bepo.envs._foreign import close, in_words, named
from bepo.envs._values import begun
from bepo.envs._words import pieces
from bepo.envs.gymnasium.tabular import has_table
from bepo.envs.gymnasium.texts import described, family_of, plain

_SIZES = range(2, 51)  # of a random lake; Gymnasium never returns from making a map of one cell


class Maker:
    """Makes environments with one ID, and reads their observations."""

    def __init__(self, env_id: str, kwargs: Mapping[str, Any], actions: Sequence[str]) -> None:
        """``kwargs`` go to ``gymnasium.make``; ``actions`` are words, or empty. Raises ``UserError``."""
        self.name = f"{env_id} {json.dumps(dict(kwargs), sort_keys=True)}"
        self.family = family_of(env_id)
        self.id, self._kwargs, self._actions = env_id, dict(kwargs), tuple(actions)
        self.random_map = "FrozenLake" in env_id and kwargs.get("map_name", "") is None
        if self.random_map and (type(size := self._size) is not int or size not in _SIZES):
            raise UserError(f"env.kwargs.size={size}: choose a whole number from {_SIZES[0]} to {_SIZES[-1]}")
        self.renders = False
        with named(env_id, "description"):
            with self._made() as env:
                self.renders = "ansi" in env.metadata.get("render_modes", ())
            with self._made() as env:
                self.words, self.has_table = self._words(env), has_table(env)
        self.names = self._names()

    def make(self, seed: int) -> Any:
        """Return an environment for the task of a seed, not reset yet.

        Gymnasium's own environments are copies that share the tables: these take long to make and never change.
        """
        if self.random_map or not self.family.actions:
            return self._make(seed)
        return copy(self._prototype)

    def time_limit(self) -> int | None:
        """Return the number of steps after which Gymnasium would truncate an episode, or None.

        It is the limit of the environment that is made, which knows its whole ID: ``Taxi`` makes ``Taxi-v4``. A wrapper
        of the environment's own may cut episodes earlier than its registration says.
        """
        with named(self.id, "time limit"), self._made() as env:
            registered = import_module("gymnasium").spec(env.unwrapped.spec.id).max_episode_steps
            return min((limit for limit in (registered, env.spec.max_episode_steps) if limit is not None), default=None)

    def text(self, env: Any, observation: object) -> str:
        """Return an observation as text. Raises ``UserError`` if it is a picture or another large array."""
        if isinstance(observation, str):
            return observation
        if self.renders:
            return plain(str(env.render()))
        try:
            return described(observation, self.family.numbers)
        except ValueError as error:
            raise UserError(
                f"env.id={self.id}: its observations cannot be described in words ({error}), and it cannot render text "
                "(render_mode=ansi)"
            ) from None

    @contextmanager
    def beginnings(self) -> Iterator[Callable[[int], str]]:
        """Yield a function that returns a text for a seed: the first observation of its episode, or its random map."""
        with self._made() as env:

            def beginning(seed: int) -> str:
                if self.random_map:
                    return "\n".join(self._map(seed))
                with named(self.id, "reset"):
                    observation, _ = begun(self.id, env.reset(seed=seed))
                    return self.text(env, observation)

            yield beginning

    @contextmanager
    def _made(self) -> Iterator[Any]:
        """Yield an environment, and close it when the ``with`` block ends."""
        env = self._make(0)
        try:
            yield env
        finally:
            close(env)

    def _make(self, seed: int) -> Any:
        gymnasium = import_module("gymnasium")
        kwargs, shown = dict(self._kwargs), {"render_mode": "ansi"} if self.renders else {}
        if self.random_map:
            kwargs = {name: value for name, value in kwargs.items() if name not in ("map_name", "size")}
            kwargs["desc"] = self._map(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as: a newer version of the environment exists
            try:
                return gymnasium.make(self.id, max_episode_steps=-1, disable_env_checker=True, **kwargs, **shown)
            except gymnasium.error.UnregisteredEnv as error:
                known = [name for name, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)]
                raise UserError(f"{unknown_choice('env.id', self.id, known)} ({in_words(error)})") from None
            except (Exception, SystemExit) as error:  # any type: the code of an environment from another package
                raise UserError(f"env.id={self.id}, env.kwargs={self._kwargs}: {in_words(error)}") from None

    @property
    def _size(self) -> Any:
        return self._kwargs.get("size", 8 if "8x8" in self.id else 4)

    def _map(self, seed: int) -> list[str]:
        lake = import_module("gymnasium.envs.toy_text.frozen_lake")
        return lake.generate_random_map(size=self._size, seed=seed)

    @cached_property
    def _prototype(self) -> Any:
        return self._make(0).unwrapped

    def _words(self, env: Any) -> tuple[str, ...]:
        gymnasium = import_module("gymnasium")
        space = env.action_space
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            raise UserError(f"env.id={self.id}: its actions are {space}, not numbered from 0 (Discrete)")
        words = self._actions or self.family.actions or tuple(str(number) for number in range(space.n))
        if len(words) != space.n or len(set(words)) != len(words):
            raise UserError(f"env.actions={list(words)}: must be {space.n} different words for {self.id}")
        return words

    def _names(self) -> dict[str, str]:
        """Return the action of each text that names one: its word, also as tiny models write it, or its number.

        Raises ``UserError`` if two actions have the same name.
        """
        names: dict[str, str] = {}
        for word in self.words:
            for name in {" ".join(form.lower().split()) for form in (word, " ".join(pieces(word)))}:
                if not name or name in names:
                    told = f"{word!r} is {repr(names[name]) if name else 'empty'} without case and blanks"
                    raise UserError(f"env.actions={list(self.words)}: {told}; choose words that differ")
                names[name] = word
        if any(word.lstrip("+-").replace(".", "", 1).isdecimal() for word in self.words):
            return names
        return {str(number): word for number, word in enumerate(self.words)} | names
