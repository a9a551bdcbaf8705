"""Environments behind an OpenEnv server: text goes in, an observation comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from urllib.request import urlopen

from bepo.core.batch import Terminal
from bepo.core.errors import Missing, UserError, unknown_choice
from bepo.core.settings import setting
from bepo.envs import Observation, PromptText, Split, Step, Task, register
from bepo.envs._foreign import (
    SHORT_ACTIONS,
    NoExpert,
    OpenEnvironments,
    TextEnvironment,
    in_words,
    named,
    tasks_of_seeds,
)
from bepo.envs._values import flag_of, reward_of
from bepo.envs._words import seen_words
from bepo.store.files import digest

_SECONDS = 10.0  # timeout of a question about the server
_NOT_SHOWN = ("done", "reward", "metadata")  # fields that every observation of OpenEnv has
_INSTALL = "pip install 'openenv-core>=0.3,<0.4'"


@register
@dataclass
class OpenEnv(TextEnvironment):
    """An environment behind a server of the openenv-core package. Any text is an action; it has no expert.

    Each episode is a session of the server, so the server must allow as many sessions as there are episodes at a time
    (``max_concurrent_envs``). A task is a seed of ``reset``; the server decides whether it uses it. An episode succeeds
    if it ends with a total reward of at least ``success_reward``. Source: Meta, 2025, OpenEnv.
    """

    name: Literal["openenv"] = "openenv"
    id: str = ""
    """The name of the environment, as the server's ``/metadata`` says it."""
    url: str = setting("http://localhost:8000", identity=False)
    """The address of the server."""
    action: str = ""
    """The field of an action that gets the agent's text; empty: the only text field."""
    observation: str = ""
    """The field of an observation that the agent reads; empty: all fields."""
    rules: str = "Answer as the task asks."
    """The rules in the prompt."""
    success_reward: float = setting(1.0, above=0)
    """Total reward from which an episode counts as solved. The task score is the total reward divided by it."""
    states: Literal["history", "observation"] = "history"
    """Two states are equal if these texts are: the whole episode so far, or only the last observation."""
    horizon: int = setting(30, at_least=1, at_most=10_000)
    """Number of steps after which an episode is truncated."""

    label: ClassVar[str] = "OpenEnv"
    shown_settings: ClassVar[tuple[str, ...]] = ("id", "horizon")
    method_version: ClassVar[int] = 2

    @cached_property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt; the vocabulary comes from episodes with random short actions."""
        words = seen_words(self, lambda rng, _: rng.choice(SHORT_ACTIONS))
        return PromptText(f"You are an expert agent in the environment {self.id}.", self.rules, words)

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the seeds of a split."""
        yield from tasks_of_seeds(self.id, split)

    def start(self, tasks: Sequence[Task]) -> OpenEnvEpisodes:
        """Open a session for each seed. Raises ``UserError`` if the server cannot be used."""
        return OpenEnvEpisodes(self, self._field, [task.data["seed"] for task in tasks])

    def close_episodes(self, episodes: Any) -> None:
        """Close the sessions of all episodes."""
        episodes.close()

    def missing(self) -> Missing | None:
        """Return ``Missing`` if openenv-core is not installed, else None."""
        return None if find_spec("openenv") else Missing("env=openenv needs the openenv-core package", _INSTALL)

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json``: the version of openenv-core, and what the server says about itself."""
        from importlib.metadata import version

        return {"openenv-core": version("openenv-core"), "server": self._asked("metadata")}

    @cached_property
    def _field(self) -> str:
        """The field of an action that gets the agent's text. Raises ``UserError`` for another environment."""
        if missing := self.missing():
            raise missing
        if (served := self._asked("metadata").get("name")) != self.id:
            raise UserError(f"env.id={self.id}: the server at env.url={self.url} has the environment {served}")
        known = self._asked("schema").get("action", {}).get("properties", {})
        texts = [name for name, kind in known.items() if kind.get("type") == "string"]
        if self.action in texts:
            return self.action
        if self.action or len(texts) != 1:
            raise unknown_choice("env.action", self.action, texts)
        return texts[0]

    def _asked(self, what: str) -> dict[str, Any]:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise UserError(f"env.url={self.url}: must begin with http:// or https://")
        try:
            with urlopen(f"{self.url.rstrip('/')}/{what}", timeout=_SECONDS) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"env.url={self.url}: the server does not answer /{what} ({in_words(error)})") from None


class OpenEnvEpisodes(NoExpert):
    """Running episodes, each a session of the server."""

    def __init__(self, env: OpenEnv, field: str, seeds: Sequence[int]) -> None:
        """Open a session for each seed; ``field`` of an action gets the agent's text."""
        client = import_module("openenv.core.generic_client").GenericEnvClient

        self._env, self._field = env, field
        self._totals = [0.0] * len(seeds)
        self._histories = [""] * len(seeds)
        self.instructions = [""] * len(seeds)
        self._clients: list[Any] = []
        self._open = OpenEnvironments()
        self.observations = []
        try:
            with named(env.id, "reset"):
                for i, seed in enumerate(seeds):
                    self._clients.append(self._open.add(i, client(base_url=env.url).sync()))
                    result = self._clients[i].reset(seed=seed)
                    self.observations.append(self._read(i, "", result.observation))
        except BaseException:
            self.close()
            raise

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Act in some episodes; None changes nothing but counts as a step."""
        return {i: self._step(i, action) for i, action in actions.items()}

    def close(self) -> None:
        """Close all sessions."""
        self._open.close_all()

    def _step(self, i: int, action: str | None) -> Step:
        if action is None:
            return Step(self.observations[i], 0.0, Terminal.NONE, self._score(i))
        with named(self._env.id, "step"):
            result = self._clients[i].step({self._field: action})
            reward = 0.0 if result.reward is None else reward_of(self._env.id, result.reward)
            done = flag_of(self._env.id, "done", result.done or False)
            self.observations[i] = self._read(i, action, result.observation)
        self._totals[i] += reward
        terminal = Terminal.NONE
        if done:
            terminal = Terminal.SUCCESS if self._score(i) == 1 else Terminal.FAILURE
            self._open.close(i)
        return Step(self.observations[i], reward, terminal, self._score(i))

    def _score(self, i: int) -> float:
        return min(max(round(self._totals[i] / self._env.success_reward, 6), 0.0), 1.0)

    def _read(self, i: int, action: str, fields: Mapping[str, Any]) -> Observation:
        name = self._env.observation
        if name and name not in fields:
            raise unknown_choice("env.observation", name, fields.keys() - {*_NOT_SHOWN})
        shown = {name: fields[name]} if name else {n: v for n, v in fields.items() if n not in _NOT_SHOWN}
        lines = [_text(v) if len(shown) == 1 else f"{n}: {_text(v)}" for n, v in shown.items()]
        text = "\n".join(lines).strip() or "The task begins."
        self._histories[i] += f"\n{action}\n{text}"
        state = text if self._env.states == "observation" else self._histories[i]
        return Observation(text, key=digest(state, 16), admissible=())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
