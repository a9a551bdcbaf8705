"""Environments: each file or folder here registers one, and its name becomes a choice of ``env``.

An environment lists tasks and runs batches of episodes. It never truncates an episode itself: the time limit
``horizon`` is enforced by the code that runs the episodes (``bepo.rollouts.collect``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from bepo.core.batch import Terminal
from bepo.core.registry import Plugin, Registry
from bepo.store.files import digest

Split = Literal["train", "validation", "test"]
IMAGE = "<image>"
"""The placeholder in the text of an observation, and so of a prompt, where the observation's image belongs."""


@dataclass(frozen=True)
class Task:
    """One task: a room, a game, a shopping goal."""

    id: str  # 16 hex digits, a digest of the task's content (``content_id``)
    data: Any  # what the environment needs to start the task, as JSON data
    kind: str = ""  # task family, for environments that report success by family


@dataclass(frozen=True)
class Observation:
    """What an agent observes at one step."""

    text: str  # the text for the prompt
    key: str  # identifies the state: observations with equal keys are one state
    admissible: tuple[str, ...]  # the actions that the prompt lists; none where the environment takes any text
    image: np.ndarray | None = None  # (H, W, 3) uint8, the image that ``IMAGE`` in the text stands for


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

    role: str  # one sentence that says who the agent is
    rules: str  # the rules of the environment
    vocabulary: Sequence[str]  # every word that observations and actions can contain, for word-level tokenizers


class Episodes(Protocol):
    """A batch of running episodes, one for each task."""

    observations: list[Observation]
    """The current observation of each episode."""
    instructions: list[str]
    """The task of each episode in words; empty where the rules of the environment describe it completely."""

    def step(self, actions: Mapping[int, str | None]) -> dict[int, Step]:
        """Act in some of the episodes and return the result of each action.

        ``actions`` maps the index of an episode to an action; None stands for an invalid one.
        """
        ...

    def expert(self, index: int) -> str | None:
        """Return the next action of an expert in the episode ``index``, or None where no success can be reached.

        Only environments with ``has_expert`` are asked.
        """
        ...

    def expert_steps(self, index: int) -> float:
        """Return how many steps the expert would need from the current state to success; NaN where it knows no way.

        The episode is left as it is. Only environments with ``counts_expert_steps`` are asked.
        """
        ...


class Environment(Plugin):
    """The base of environments: a dataclass whose fields are the settings of the environment.

    Members without a default (``method_version``, ``horizon``, ``prompt``, ``tasks``, ``start``, ``parse_action``) must be
    defined; all others may be.
    """

    group = "env"
    method_version: ClassVar[int]
    label: ClassVar[str] = ""
    """The name in tables and figures; empty: ``name``."""
    colour: ClassVar[str] = ""
    """The colour ``#RRGGBB`` in figures that compare environments; empty: a colour is chosen that no other has."""
    dashes: ClassVar[tuple[float, ...]] = ()
    """The line style in such figures, as lengths of dash, gap, dash, ... in line widths; empty: a solid line."""
    shown_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that the caption of a table names, because results with different values cannot be compared."""
    counts_expert_steps: ClassVar[bool] = False
    """Do its episodes have ``expert_steps``? ``credit=oracle`` needs them."""
    untagged_tail: ClassVar[int] = 0
    """How many characters at the end of a response are read as the action if the response has no action tags."""
    horizon: int
    """Number of steps after which an episode is truncated."""

    @property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt templates."""
        raise NotImplementedError

    @property
    def free_text(self) -> str:
        """Return why the listed actions alone do not suffice to solve a task; empty: they suffice."""
        return ""

    @property
    def has_expert(self) -> bool:
        """Return whether its episodes have ``expert``. Without one, tiny models have no warm start."""
        return True

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split, without repetition and in a fixed order; splits have no task in common."""
        raise NotImplementedError

    def start(self, tasks: Sequence[Task]) -> Episodes:
        """Start one episode for each task."""
        raise NotImplementedError

    def parse_action(self, text: str) -> str | None:
        """Return the action that the text of a response stands for, or None if it stands for none."""
        raise NotImplementedError


environments = Registry[Environment](__name__, "env", "environment")
register = environments.register


def content_id(text: str) -> str:
    """Return the id of a task with this content: the first 16 hex digits of its SHA-256."""
    return digest(text, 16)


def split_by_id(task_id: str) -> Split:
    """Return the split of a task by its id: 80 % train, 10 % validation, 10 % test.

    The id depends on the content alone, so that equal tasks are never in two splits.
    """
    bucket = int(task_id[:8], 16) % 10
    return "test" if bucket == 0 else "validation" if bucket == 1 else "train"
