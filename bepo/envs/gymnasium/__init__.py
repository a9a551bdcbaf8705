"""Gymnasium's text environments: a few actions, and an observation or a rendering that is text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, Literal, get_args

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.envs import Environment, Observation, PromptText, Split, Task, content_id, register, split_by_id
from bepo.envs._words import pieces, seen_words
from bepo.envs.gymnasium.episodes import GymnasiumEpisodes
from bepo.envs.gymnasium.making import Maker
from bepo.envs.gymnasium.texts import family_of

_SEEDS = 10_000_000
_STEPS_WITHOUT_LIMIT, _MOST_STEPS = 50, 10_000
_MOST_SEEDS_IN_VAIN = 2_000


@register
@dataclass
class Gymnasium(Environment):
    """Any environment of the gymnasium package with numbered actions, such as FrozenLake, Taxi or CliffWalking.

    A task is a seed of ``reset``. The seed also decides all later random events, so the episodes of a group are
    comparable. An observation is the rendering as text (mode ``ansi``), or its numbers if it cannot be rendered: at
    most 64 of them, with three digits. An episode succeeds if the environment ends it with a reward above 0
    (CliffWalking, MountainCar and Acrobot: if it ends it; CartPole: if the pole stands until the time limit and every
    step had an action). An environment with a table of its transitions (``P``) has an expert, found by value iteration.
    Source: Towers et al., 2024, Gymnasium.
    """

    name: Literal["gymnasium"] = "gymnasium"
    id: str = "FrozenLake-v1"
    """The environment's ID in ``gymnasium.make``; ``package:Name-v0`` imports the package that registers it."""
    kwargs: dict[str, Any] = setting(factory=dict)
    """Further arguments of ``gymnasium.make``. In FrozenLake, ``map_name: null`` makes a new map for each task."""
    starts: Literal["seeds", "distinct"] = "seeds"
    """``seeds``: each seed is a task; tasks may begin alike. ``distinct``: all tasks begin differently, so training and
    test tasks never begin alike."""
    actions: list[str] = setting(factory=list)
    """The words for the actions 0, 1, ...; empty: built-in words for Gymnasium's environments, else the numbers."""
    rules: str = ""
    """The rules in the prompt; empty: built-in rules for Gymnasium's environments."""
    horizon: int = setting(0, at_least=0, at_most=_MOST_STEPS)
    """Number of steps after which an episode is truncated. 0: the environment's own time limit (``max_episode_steps``),
    or 50 if it has none. A run's ID contains the resulting number."""

    label: ClassVar[str] = "Gymnasium"
    shown_settings: ClassVar[tuple[str, ...]] = ("id", "horizon")
    method_version: ClassVar[int] = 3
    reads_case: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.horizon == 0:
            with suppress(UserError):  # an environment that cannot be made keeps 0, and says why when it is used
                self.horizon = min(self._made.time_limit() or _STEPS_WITHOUT_LIMIT, _MOST_STEPS)
        super().__post_init__()

    def __getstate__(self) -> dict[str, Any]:
        """Return only the settings: environments may hold processes or files."""
        return asdict(self)

    @property
    def has_expert(self) -> bool:
        """Return whether the environment has a table of its transitions."""
        return self._maker.has_table

    @cached_property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt; the vocabulary comes from some random episodes."""
        seen = seen_words(self, _random_action)
        words = sorted({*seen, *(piece for word in self._maker.words for piece in pieces(word))})
        rules = self.rules or family_of(self.id).rules or f"You act in {self.id}."
        return PromptText(f"You are an expert agent playing {self.id.partition('-v')[0]}.", rules, words)

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the seeds of a split; with ``starts=distinct``, one seed for each distinct first observation.

        Raises ``UserError`` if there are too few distinct beginnings for this split.
        """
        if self.starts == "seeds":
            yield from self._distinct(split, lambda seed: f"seed {seed}")
        else:
            with self._maker.beginnings() as beginning:
                yield from self._distinct(split, beginning)

    def _distinct(self, split: Split, beginning: Callable[[int], str]) -> Iterator[Task]:
        """Yield the seeds of a split whose ``beginning`` differs from that of all seeds before."""
        seen, last, empty = set(), 0, True
        for seed in range(_SEEDS):
            if seed - last > _MOST_SEEDS_IN_VAIN:
                break
            start = beginning(seed)
            task_id = content_id(f"{self._maker.name} {start}")
            if task_id not in seen:
                seen.add(task_id)
                last = seed
                if split_by_id(task_id) == split:
                    empty = False
                    yield Task(task_id, {"seed": seed})
        if empty or len(seen) < len(get_args(Split)):
            raise UserError(
                f"env.starts=distinct: {self.id} with env.kwargs={dict(self.kwargs)} has {len(seen)} first "
                f"observation{'s' * (len(seen) != 1)}, too few for {split} tasks; choose env.starts=seeds"
                + ", or a new map for each task with +env.kwargs.map_name=null"
                * ("FrozenLake" in self.id)
            )

    def start(self, tasks: Sequence[Task]) -> GymnasiumEpisodes:
        """Start one episode for each seed."""
        return GymnasiumEpisodes(self._maker, [task.data["seed"] for task in tasks], self.horizon)

    def close_episodes(self, episodes: Any) -> None:
        """Close the environments of all episodes."""
        episodes.close()

    def parse_action(self, text: str) -> str | None:
        """Return the action that the text names, or None. Case does not count.

        Exact words come first, then the number of an action, if no word is a number. Then the text may contain words of
        an action; the action with the most words counts, or the first of several.
        """
        said = " ".join(text.lower().split())
        if said in self._maker.names:
            return self._maker.names[said]
        contained = (word for word in self._maker.words if f" {' '.join(word.lower().split())} " in f" {said} ")
        return max(contained, key=lambda word: len(word.split()), default=None)

    def missing(self) -> Missing | None:
        """Return ``Missing`` if gymnasium is not installed, else None."""
        if find_spec("gymnasium") is None:
            return Missing("env=gymnasium needs the gymnasium package", "pip install 'gymnasium>=1.3,<2'")
        return None

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json``: the version of Gymnasium."""
        from importlib.metadata import version

        return {"gymnasium": version("gymnasium")}

    @property
    def _maker(self) -> Maker:
        made = self._made
        if self.horizon == 0:
            made.time_limit()  # raises the reason again, if it is still there
            raise UserError(f"env.id={self.id}: could not be made when its time limit was read; try again")
        return made

    @cached_property
    def _made(self) -> Maker:
        if missing := self.missing():
            raise missing
        if not self.id:
            raise UserError("env.id is empty: name an environment, such as env.id=FrozenLake-v1")
        return Maker(self.id, self.kwargs, self.actions)


def _random_action(rng: random.Random, observation: Observation) -> str:
    return rng.choice(observation.admissible)
