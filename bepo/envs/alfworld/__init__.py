"""ALFWorld: household tasks in text, on generated games or the official ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

from bepo.envs import PromptText, Split, Task, register
from bepo.envs.alfworld import stock, wheel
from bepo.envs.alfworld.episodes import ALFWorldEpisodes
from bepo.envs.alfworld.fleet import InProcess
from bepo.envs.alfworld.generate import TASK_TYPES
from bepo.envs.alfworld.sources import Source, official_root, tree_digest
from bepo.envs.alfworld.words import vocabulary
from bepo.envs.alfworld.workers import Workers
from bepo.errors import Missing, UserError, choose

_SPACED_SLASH = re.compile(r"\s*/\s*")


@register
@dataclass
class ALFWorld:
    """The six task types of ALFWorld: train, and the official valid_seen and valid_unseen as test and validation.

    Reward is 10 on success, else 0 (verl-agent). ``help`` is never offered (verl-agent); every other admissible command
    is. An inadmissible command is answered "Nothing happens." and costs a step.
    """

    name: Literal["alfworld"] = "alfworld"
    data: Literal["generated", "official"] = "generated"
    """Games made here in the official format, or the tree under $ALFWORLD_DATA."""
    tree: str | None = None
    """Which official tree, as a digest of its games' names and sizes; filled in, so that runs and panels know it."""
    engine: Literal["fast", "memoised", "stock"] = "fast"
    """The interpreter in Python, textworld with its repeated work kept, or textworld as it is: equal transcripts."""
    workers: int | None = None
    """Processes that play the games, 0 for this one; null: none for the fast engine, else one a core."""
    timeout: float = 120.0
    """Seconds after which a worker that does not answer is replaced."""
    horizon: int = 50
    """Steps before an episode is cut off."""
    task_types: list[str] = field(default_factory=lambda: list(TASK_TYPES))
    """Which of the six; generated games take turns."""
    test_split: Literal["valid_seen", "valid_unseen"] = "valid_seen"
    """What is reported on: other games in the scenes of training (the paper's in-distribution split), or games in other
    scenes. The one that is left is the validation split."""
    max_receptacles: int | None = None
    """Generated scenes keep at most this many receptacles, one of each type first; null keeps all (5 to 54)."""
    graph_key: Literal["raw", "augmented"] = "raw"
    """What states are matched by: the observation alone, or with GraphGPO's memory and the admissible commands."""
    prompt_state: Literal["raw", "augmented"] = "raw"
    """What the prompt shows: the observation alone, or with GraphGPO's memory."""
    rendering: Literal["full", "compact"] = "full"
    """compact: few words for tiny models (``compact.shorten``). Changes prompts, not state keys or commands."""

    method_version: ClassVar[int] = 1
    untagged_tail: ClassVar[int] = 30

    def __post_init__(self) -> None:
        for kind in self.task_types:
            if kind not in TASK_TYPES:
                raise choose("task type in env.task_types", kind, TASK_TYPES)
        if not self.task_types:
            raise UserError(f"env.task_types is empty; choices: {', '.join(TASK_TYPES)}")
        if self.horizon < 1:
            raise UserError(f"env.horizon={self.horizon}: at least 1")
        if self.max_receptacles is not None and self.max_receptacles < 8:
            raise UserError(f"env.max_receptacles={self.max_receptacles}: at least 8, or null for all")
        if self.data == "official" and not self.missing():
            found = tree_digest(self.source.root)
            if self.tree not in (None, found):
                raise UserError(f"env.tree={self.tree}: the games under ALFWORLD_DATA are {found}")
            self.tree = found

    @cached_property
    def source(self) -> Source:
        root = official_root() if self.data == "official" else ""
        other = "valid_unseen" if self.test_split == "valid_seen" else "valid_seen"
        folders = {"train": "train", "validation": other, "test": self.test_split}
        return Source(self.data, tuple(self.task_types), self.max_receptacles, folders, root)

    @cached_property
    def prompt(self) -> PromptText:
        return PromptText(
            role="You are an expert agent operating in the ALFRED embodied environment.",
            rules="You act in a household by text commands, one a step.",
            words=vocabulary(),
        )

    def missing(self) -> Missing | None:
        try:
            wheel.folder()
            _ = self.source
        except Missing as missing:
            return missing
        if self.engine != "fast" and not (find_spec("textworld") and find_spec("fast_downward")):
            return Missing("textworld is not installed", stock.REMEDY)
        return None

    def facts(self) -> dict:
        """What it ran on, for the record."""
        return {"data": self.data, "tree": self.tree, "engine": self.engine}

    def tasks(self, split: Split) -> Iterator[Task]:
        if missing := self.missing():
            raise missing
        return self.source.tasks(split)

    def start(self, tasks: Sequence[Task]) -> ALFWorldEpisodes:
        workers = self.pool
        batch = workers.start(tasks) if workers else InProcess(self.source, self.engine, tasks)
        return ALFWorldEpisodes(self, tasks, batch)

    @cached_property
    def pool(self) -> Workers | None:
        """Worker processes, started with the first batch."""
        count = self.workers
        if count is None:
            count = 0 if self.engine == "fast" else os.cpu_count() or 1
        return Workers(self.source, self.engine, count, self.timeout) if count else None

    def __getstate__(self) -> dict:
        return asdict(self)  # processes stay here

    def source_path(self, task: Task) -> Path:
        """Folder of an official game."""
        return Path(self.source.root) / task.data["path"]

    def project(self, text: str) -> str:
        """Any words are sent to the game (verl-agent). Word-level tokenizers put blanks around the stroke of in/on."""
        return _SPACED_SLASH.sub("/", text.strip())
