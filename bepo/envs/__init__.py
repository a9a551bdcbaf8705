"""Environments. Each file or folder of this package registers one; its name becomes a choice of ``env``.

An environment lists tasks and runs batches of episodes. It never truncates an episode: ``bepo.rollouts.collect``, which
runs the episodes, enforces the time limit ``horizon``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from bepo.core.batch import Terminal
from bepo.core.registry import Plugin, Registry
from bepo.store.files import digest

Split = Literal["train", "validation", "test"]
IMAGE = "<image>"
"""The placeholder for the observation's image in the text of an observation or prompt."""


@dataclass(frozen=True)
class Task:
    """One task, such as a Sokoban board, an ALFWorld game or a shopping goal."""

    id: str  # 16 hex digits, a digest of the task's content (``content_id``)
    data: Any  # what the environment needs to start the task, as JSON data
    kind: str = ""  # task type, for environments that report success by type


@dataclass(frozen=True)
class Observation:
    """What an agent observes at one step."""

    text: str  # the text for the prompt
    key: str  # identifies the state: observations with equal keys are one state
    admissible: tuple[str, ...]  # the actions that the prompt lists; empty if any text is an action
    image: np.ndarray | None = None  # (H, W, 3) uint8, shown in place of ``IMAGE``


@dataclass(frozen=True)
class Step:
    """The result of one action."""

    observation: Observation  # after the action
    reward: float
    terminal: Terminal  # NONE, SUCCESS or FAILURE
    task_score: float  # the environment's own score of the episode so far, in [0, 1]
    broken: bool = False  # the environment failed and cannot continue; the episode ends as a truncation


@dataclass(frozen=True)
class PromptText:
    """The texts that an environment contributes to the agent's prompt templates."""

    role: str  # one sentence about who the agent is
    rules: str  # the rules of the environment
    vocabulary: Sequence[str]  # every word that observations and actions can contain, for word-level tokenizers


class Episodes(Protocol):
    """A batch of running episodes, one for each task."""

    observations: list[Observation]
    """The current observation of each episode."""
    instructions: list[str]
    """The task of each episode in words; empty if the rules of the environment describe it completely."""

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Act in some of the episodes, and return the result of each action.

        ``actions`` maps the index of an episode to its action; None stands for an invalid action.
        """
        ...

    def expert(self, index: int) -> str | None:
        """Return the expert's next action in episode ``index``, or None if success is out of reach.

        Called only for environments with ``has_expert``.
        """
        ...

    def expert_steps(self, index: int) -> float:
        """Return the steps that the expert needs from the current state to success; NaN if it finds no solution.

        Does not change the episode. Called only for environments with ``counts_expert_steps``.
        """
        ...


class Environment(Plugin):
    """The base class of environments: a dataclass whose fields are the environment's settings.

    A subclass must define ``method_version``, ``horizon``, ``prompt``, ``tasks``, ``start`` and ``parse_action``. All
    other members have a default.
    """

    group = "env"
    method_version: ClassVar[int]
    label: ClassVar[str] = ""
    """Name in tables and figures; empty: ``name``."""
    colour: ClassVar[str] = ""
    """Colour ``#RRGGBB`` in figures that compare environments; empty: a free colour is chosen."""
    dashes: ClassVar[tuple[float, ...]] = ()
    """Line style in such figures: lengths of dash, gap, dash, ... in line widths; empty: a solid line."""
    shown_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that table captions name, because results with different values are not comparable."""
    counts_expert_steps: ClassVar[bool] = False
    """Whether its episodes implement ``expert_steps``, which ``credit=oracle`` needs."""
    untagged_tail: ClassVar[int] = 0
    """If a response has no action tags, so many characters at its end are read as the action."""
    reads_case: ClassVar[bool] = True
    """Whether an action in other letters (``Paris``, ``paris``) is another action. False: responses are read, and shown
    in later prompts, in lower case."""
    horizon: int
    """Number of steps after which an episode is truncated."""

    @property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt templates."""
        raise NotImplementedError

    @property
    def free_text(self) -> str:
        """Return why a policy needs more than the listed actions to solve a task; empty if they suffice."""
        return ""

    @property
    def has_expert(self) -> bool:
        """Return whether its episodes have an expert. Tiny models need one for their warm start."""
        return True

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split in a fixed order, each once; splits share no task."""
        raise NotImplementedError

    def start(self, tasks: Sequence[Task]) -> Episodes:
        """Start one episode for each task."""
        raise NotImplementedError

    def parse_action(self, text: str) -> str | None:
        """Return the action in the text of a response, or None if the text is not an action."""
        raise NotImplementedError

    def close_episodes(self, episodes: Any) -> None:
        """Free what a batch of ``start`` holds, such as processes and connections. By default there is nothing to free.

        Called once when the batch has ended, also after an error and after Ctrl-C.
        """


@contextmanager
def started(env: Environment, tasks: Sequence[Task]) -> Iterator[Episodes]:
    """Start one episode for each task, and close them when the ``with`` block ends, however it ends."""
    episodes = env.start(tasks)
    try:
        yield episodes
    finally:
        env.close_episodes(episodes)


environments = Registry[Environment](__name__, "env", "environment")
register = environments.register


def content_id(text: str) -> str:
    """Return the id of a task with this content: the first 16 hex digits of its SHA-256."""
    return digest(text, 16)


def split_by_id(task_id: str) -> Split:
    """Return the split of a task by its id: 80 % train, 10 % validation, 10 % test.

    The ID depends on the content alone, so equal tasks are always in the same split.
    """
    bucket = int(task_id[:8], 16) % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"
