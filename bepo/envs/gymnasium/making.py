"""Environments of Gymnasium, made as the settings say."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from importlib import import_module
from typing import Any

from bepo.core.errors import UserError
from bepo.envs.gymnasium.texts import family_of, plain


class Maker:
    """Makes environments of one kind, and reads their observations."""

    def __init__(self, env_id: str, kwargs: Mapping[str, Any], actions: Sequence[str]) -> None:
        """``kwargs`` are those of ``gymnasium.make``; ``actions`` are words, or empty. Raises ``UserError``."""
        self.name = f"{env_id} {json.dumps(dict(kwargs), sort_keys=True)}"
        self.family = family_of(env_id)
        self._id, self._kwargs, self._actions = env_id, dict(kwargs), tuple(actions)
        self.random_map = env_id.startswith("FrozenLake") and kwargs.get("map_name", "") is None
        self.renders = "ansi" in self._make(0).metadata.get("render_modes", ())
        self.words = self._words()

    def make(self, seed: int) -> Any:
        """Return an environment for the task of a seed; it is not reset yet.

        Gymnasium's own are copies of one that share its tables, which no episode changes and which take long to make.
        """
        if self.random_map or not self.family.actions:
            return self._make(seed, render_mode="ansi" if self.renders else None)
        return copy(self._prototype)

    def text(self, env: Any, observation: object) -> str:
        """Return an observation as text. Raises ``UserError`` for an array, which is none."""
        if isinstance(observation, str):
            return observation
        if self.renders:
            return plain(str(env.render()))
        parts = observation if isinstance(observation, tuple) else (observation,)
        if any(getattr(part, "ndim", 0) for part in parts) or isinstance(observation, dict):
            raise UserError(
                f"env.id={self._id}: its observations are no text, and it does not render any (render_mode=ansi)"
            )
        return " ".join(str(int(part) if isinstance(part, bool) else part) for part in parts)

    def first_observation(self, seed: int) -> str:
        """Return what an episode begins with."""
        env = self.make(seed) if self.random_map else self._prototype
        observation, _ = env.reset(seed=seed)
        return self.text(env, observation)

    def _make(self, seed: int, **more: Any) -> Any:
        gymnasium = import_module("gymnasium")
        kwargs = dict(self._kwargs)
        if self.random_map:
            lake = import_module("gymnasium.envs.toy_text.frozen_lake")
            kwargs = {name: value for name, value in kwargs.items() if name not in ("map_name", "size")}
            kwargs["desc"] = lake.generate_random_map(size=self._kwargs.get("size", 4), seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of newer versions, of checks
            try:
                return gymnasium.make(self._id, max_episode_steps=-1, disable_env_checker=True, **kwargs, **more)
            except (gymnasium.error.Error, TypeError, KeyError, ImportError) as error:
                raise UserError(f"env.id={self._id}, env.kwargs={self._kwargs}: {str(error).strip()}") from None

    @cached_property
    def _prototype(self) -> Any:
        return self._make(0, render_mode="ansi" if self.renders else None).unwrapped

    def _words(self) -> tuple[str, ...]:
        gymnasium = import_module("gymnasium")
        space = self._prototype.action_space
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            raise UserError(f"env.id={self._id}: its actions are {space}, not numbered from 0 (Discrete)")
        words = self._actions or self.family.actions or tuple(str(number) for number in range(space.n))
        if len(words) != space.n or len(set(words)) != len(words):
            raise UserError(f"env.actions={list(words)}: must be {space.n} different words for {self._id}")
        return words
