"""Where games come from: the generator, or ALFWorld's original games under ``$ALFWORLD_DATA``."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from bepo.core.errors import Missing
from bepo.envs import Split, Task, content_id
from bepo.envs.alfworld.generate import generate
from bepo.store.files import read_bytes
from bepo.store.json_files import parse_object, read_object

_log = logging.getLogger(__name__)
INSTALL = "export ALFWORLD_DATA=FOLDER; alfworld-download"


@dataclass(frozen=True)
class GameFiles:
    """The content of a game's files."""

    game_file: dict[str, Any]  # game.tw-pddl
    traj_data: dict[str, Any]  # traj_data.json


class CorruptGame(Exception):
    """The files of a game cannot be read, or have changed since the task set was made."""


@dataclass(frozen=True)
class Source:
    """Lists the games of each split, and loads them."""

    data: Literal["generated", "original"]
    task_types: tuple[str, ...]
    max_receptacles: int | None  # of generated scenes
    folders: Mapping[Split, str]  # split -> train, valid_seen or valid_unseen
    root: str = ""  # the folder of the original games, which holds train/, valid_seen/ and valid_unseen/

    def tasks(self, split: Split) -> Iterator[Task]:
        """Yield generated games by number, without end, or the original games sorted by ID.

        The ID is a digest of the content, so the order does not depend on the file system. Raises ``Missing`` if the
        folder of the split does not exist.
        """
        return self._original_tasks(split) if self.data == "original" else self._generated_tasks(split)

    def load(self, task_id: str, data: Any) -> GameFiles:
        """Return the files of a task's game. Raises ``CorruptGame``."""
        if self.data == "generated":
            game = generate(data["folder"], data["number"], self.task_types, self.max_receptacles)
            return GameFiles(game.game_file, game.traj_data)
        folder = Path(self.root) / data["path"]
        try:
            text = read_bytes(folder / "game.tw-pddl", "game").decode()
            traj_data = read_object(folder / "traj_data.json", "trajectory")
            game_file = parse_object(text.encode(), folder, "game")
        except (OSError, ValueError) as error:
            raise CorruptGame(f"{folder}: {error}") from error
        if content_id(text) != task_id:
            raise CorruptGame(f"{folder}: game.tw-pddl changed since the task set was made")
        return GameFiles(game_file, traj_data)

    def _generated_tasks(self, split: Split) -> Iterator[Task]:
        folder = self.folders[split]
        for number in count():
            game = generate(folder, number, self.task_types, self.max_receptacles)
            yield Task(content_id(game.problem + game.sentence), {"folder": folder, "number": number}, game.kind)

    def _original_tasks(self, split: Split) -> Iterator[Task]:
        top = Path(self.root) / self.folders[split]
        if not top.is_dir():
            raise Missing(f"env.data=original: {top} is not a folder", INSTALL)
        tasks: dict[str, Task] = {}
        for path in top.rglob("game.tw-pddl"):
            task = self._original_task(path)
            if task is not None:  # games with equal content are one task, under the first path
                tasks[task.id] = min(tasks.get(task.id, task), task, key=lambda t: t.data["path"])
        yield from sorted(tasks.values(), key=lambda t: t.id)

    def _original_task(self, path: Path) -> Task | None:
        """Return a game's task, or None for broken files and for games that ALFWorld's own environment leaves out."""
        folder = path.parent.relative_to(self.root).as_posix()
        if "movable" in folder or "Sliced" in folder:
            return None
        try:
            text = read_bytes(path, "game").decode()
            kind = read_object(path.parent / "traj_data.json", "trajectory")["task_type"]
            solvable = parse_object(text.encode(), path, "game")["solvable"]
        except (OSError, ValueError, KeyError) as error:
            _log.warning("ALFWorld: %s is left out (%s: %s)", path.parent, type(error).__name__, error)
            return None
        if not solvable or kind not in self.task_types:
            return None
        return Task(content_id(text), {"path": folder}, kind)


def original_root() -> str:
    """Return ``$ALFWORLD_DATA/json_2.1.1``. Raises ``Missing`` if the variable is not set."""
    data = os.environ.get("ALFWORLD_DATA")
    if not data:
        raise Missing("env.data=original: the variable ALFWORLD_DATA is not set", INSTALL)
    return str(Path(data).expanduser() / "json_2.1.1")


def original_digest(root: str) -> str:
    """Return a digest of the names and sizes of the games under ``root``, a quick check of the download."""
    games = Path(root).rglob("game.tw-pddl")
    return content_id("\n".join(sorted(f"{p.relative_to(root).as_posix()} {p.stat().st_size}" for p in games)))
