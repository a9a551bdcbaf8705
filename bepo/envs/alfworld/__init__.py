"""ALFWorld: household tasks in text (Shridhar et al., 2021), on generated or on original games."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from bepo.core.errors import Missing, UserError, unknown_choice
from bepo.core.settings import setting
from bepo.envs import Environment, PromptText, Split, Task, register
from bepo.envs.alfworld import package_data, textworld_engine
from bepo.envs.alfworld.episodes import ALFWorldEpisodes
from bepo.envs.alfworld.games import Engine
from bepo.envs.alfworld.generate import TASK_TYPES
from bepo.envs.alfworld.sources import Source, original_digest, original_root
from bepo.envs.alfworld.vocabulary import vocabulary

_SPACED_SLASH = re.compile(r"\s*/\s*")


@register
@dataclass
class ALFWorld(Environment):
    """The six task types of ALFWorld, with its splits train, valid_seen and valid_unseen.

    The reward is 10 for success and 0 otherwise (verl-agent). All admissible commands are listed except ``help``
    (verl-agent). The answer to an inadmissible command is "Nothing happens."; it takes a step.
    """

    name: Literal["alfworld"] = "alfworld"
    data: Literal["generated", "original"] = "generated"
    """Games that this project generates, or ALFWorld's original games under $ALFWORLD_DATA."""
    data_digest: str | None = None
    """A digest of the original games' names and sizes, filled in automatically. If set, other games are refused."""
    engine: Engine = "fast"
    """``fast`` is this project's interpreter. Both engines give the same transcripts."""
    horizon: int = setting(50, at_least=1, at_most=10_000)
    """Number of steps after which an episode is truncated."""
    task_types: list[str] = field(default_factory=lambda: list(TASK_TYPES))
    """The task types to use. Generated games take turns between them."""
    test_split: Literal["valid_seen", "valid_unseen"] = "valid_seen"
    """The test split: new games in the training scenes (``valid_seen``, the paper's in-distribution split), or games in
    new scenes (``valid_unseen``). The other one becomes the validation split."""
    max_receptacles: int | None = setting(None, at_least=8)
    """Number of receptacles that a generated scene keeps, first one of each type; null keeps all (5 to 54)."""
    graph_key: Literal["raw", "augmented"] = "raw"
    """Two states are equal if these texts are: the observation, or GraphGPO's augmented observation with the admissible
    commands."""
    prompt_state: Literal["raw", "augmented"] = "raw"
    """What the prompt shows: the observation, or GraphGPO's augmented observation."""
    rendering: Literal["full", "compact"] = "full"
    """``compact`` shortens the observations in prompts for tiny models. State keys and commands do not change."""

    label: ClassVar[str] = "ALFWorld"
    colour: ClassVar[str] = "#332288"
    counts_expert_steps: ClassVar[bool] = True
    shown_settings: ClassVar[tuple[str, ...]] = (
        *("data", "test_split", "horizon", "max_receptacles"),
        *("graph_key", "prompt_state", "rendering"),
    )
    method_version: ClassVar[int] = 1
    reads_case: ClassVar[bool] = False
    untagged_tail: ClassVar[int] = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in self.task_types:
            if kind not in TASK_TYPES:
                raise unknown_choice("task type in env.task_types", kind, TASK_TYPES)
        if not self.task_types:
            raise UserError(f"env.task_types is empty; choices: {', '.join(TASK_TYPES)}")
        if self.data == "original" and not self.missing():
            actual = original_digest(self.source.root)
            if self.data_digest not in (None, actual):
                raise UserError(
                    f"env.data_digest={self.data_digest}: the games under ALFWORLD_DATA have the digest {actual}"
                )
            self.data_digest = actual

    @cached_property
    def source(self) -> Source:
        """Return where the games come from. Raises ``Missing`` if the original games are chosen but not set up."""
        root = original_root() if self.data == "original" else ""
        other = "valid_unseen" if self.test_split == "valid_seen" else "valid_seen"
        folders: dict[Split, str] = {"train": "train", "validation": other, "test": self.test_split}
        return Source(self.data, tuple(self.task_types), self.max_receptacles, folders, root)

    @cached_property
    def prompt(self) -> PromptText:
        """Return the texts for the agent's prompt."""
        return PromptText(
            role="You are an expert agent operating in the ALFRED embodied environment.",
            rules="You act in a household by text commands, one a step.",
            vocabulary=vocabulary(),
        )

    def missing(self) -> Missing | None:
        """Return the first missing part: alfworld's wheel, the original games or textworld; None if all are there."""
        try:
            package_data.folder()
            _ = self.source
        except Missing as missing:
            return missing
        return textworld_engine.missing() if self.engine == "textworld" else None

    def metadata(self) -> dict[str, Any]:
        """Return metadata for ``run.json``: source of the games, digest of the original games, engine."""
        return {"data": self.data, "data_digest": self.data_digest, "engine": self.engine}

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield the games of a split. Raises ``Missing`` if a needed package or file is not installed."""
        if missing := self.missing():
            raise missing
        return self.source.tasks(split)

    def start(self, tasks: Sequence[Task]) -> ALFWorldEpisodes:
        """Start one episode for each game; a game that cannot be loaded gives a broken episode."""
        return ALFWorldEpisodes(self, tasks)

    def parse_action(self, text: str) -> str:
        """Return the text as a command, without any check (verl-agent).

        Removes the blanks that word-level tokenizers put around the slash of in/on.
        """
        return _SPACED_SLASH.sub("/", text.strip())

    def __getstate__(self) -> dict[str, Any]:
        """Return only the settings, so that cached data is not sent to other processes."""
        return asdict(self)
