"""Task panels: fixed, content-addressed lists of tasks to train and evaluate on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from bepo.envs import Environment, Split, Task
from bepo.errors import UserError


@dataclass(frozen=True)
class Panel:
    split: str
    tasks: tuple[Task, ...]

    @cached_property
    def digest(self) -> str:
        """Changes when any task, or their order, does."""
        content = json.dumps([asdict(t) for t in self.tasks], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.tasks)


def panel(env: Environment, split: Split, size: int, cache: Path | None = None) -> Panel:
    """The first ``size`` tasks of a split; a smaller panel is a prefix of a larger one.

    With ``cache`` the panel is kept there as JSON and checked against its digest when read. Raises ``UserError`` if
    the split has fewer tasks, or if a cached panel was altered.
    """
    if cache is not None:
        settings = json.dumps({**asdict(env), "version": env.method_version}, sort_keys=True)
        key = hashlib.sha256(settings.encode()).hexdigest()[:10]
        cache = cache / f"{env.name}-{split}-{size}-{key}.json"
        if cache.exists():
            return _read(cache, split, size)
    tasks = tuple(islice(env.tasks(split), size))
    if len(tasks) < size:
        raise UserError(f"{env.name} has {len(tasks)} {split} tasks, not the {size} asked for")
    made = Panel(split, tasks)
    if cache is not None:
        _write(cache, made)
    return made


def _read(path: Path, split: str, size: int) -> Panel:
    try:
        stored = json.loads(path.read_text())
        found = Panel(stored["split"], tuple(Task(**t) for t in stored["tasks"]))
        digest = stored["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a task panel ({error}); remove the file to make it anew") from error
    if found.digest != digest:
        raise UserError(
            f"{path}: the panel says digest {digest}, its tasks have {found.digest}; remove the file to make it anew"
        )
    if (found.split, len(found)) != (split, size):
        raise UserError(f"{path}: holds {len(found)} {found.split} tasks, not {size} {split} tasks")
    return found


def _write(path: Path, panel: Panel) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {"split": panel.split, "digest": panel.digest, "tasks": [asdict(t) for t in panel.tasks]}
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(stored))
    part.replace(path)
