"""Task sets: fixed lists of tasks for training and evaluation, identified by a digest of their content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError
from bepo.core.phases import report
from bepo.core.settings import identity
from bepo.envs import Environment, Split, Task
from bepo.store.files import digest, with_hint
from bepo.store.json_files import check_made_for, read_sealed, write_sealed


@dataclass(frozen=True)
class TaskSet:
    """The tasks of one split, in a fixed order."""

    split: Split
    tasks: tuple[Task, ...]

    @cached_property
    def digest(self) -> str:
        """A digest (16 hex digits) of the tasks and their order."""
        return digest(json.dumps([asdict(task) for task in self.tasks], sort_keys=True), 16)

    def __len__(self) -> int:
        return len(self.tasks)


def task_set(env: Environment, split: Split, size: int, cache: Path | None = None) -> TaskSet:
    """Return the first ``size`` tasks of a split; a smaller set is a prefix of a larger one.

    ``cache`` is a folder for a copy of the set as JSON; it is checked against its digest when it is read. Raises
    ``UserError`` if the split has fewer tasks, or if a cached set was altered or made for other settings.
    """
    settings: dict[str, Any] = {}
    if cache is not None:
        settings = {**identity(env), "version": env.method_version}
        cache = cache / f"{env.name}-{split}-{size}-{digest(json.dumps(settings, sort_keys=True), 10)}.json"
        if cache.exists():
            return _read(cache, split, size, settings)
    tasks = tuple(_reported(islice(env.tasks(split), size), f"making the {split} task set", size))
    if len(tasks) < size:
        setting = "rollout.train_tasks" if split == "train" else "evaluation.tasks"
        advice = f"; {setting}={len(tasks)} uses all of them" if tasks else ""
        raise UserError(f"env={env.name} has {len(tasks)} {split} tasks, but {size} are needed{advice}")
    made = TaskSet(split, tasks)
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(cache, {"env": settings, "split": split, "tasks": [asdict(task) for task in tasks]})
    return made


def _reported(tasks: Iterator[Task], phase: str, size: int) -> Iterator[Task]:
    for number, task in enumerate(tasks, start=1):
        report(phase, f"{number:,} of {size:,}")
        yield task


def _read(path: Path, split: Split, size: int, settings: dict[str, Any]) -> TaskSet:
    try:
        with with_hint("remove the file to make it anew"):
            content = read_sealed(path, "task set")
            if "env" in content:  # older files lack the settings that they were made for
                check_made_for(path, {"env": content["env"]}, {"env": settings})
        stored = TaskSet(content["split"], tuple(Task(**task) for task in content["tasks"]))
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: not a task set ({error!r}); remove the file to make it anew") from error
    if (stored.split, len(stored)) != (split, size):
        raise UserError(f"{path}: has {len(stored)} {stored.split} tasks, not {size} {split} tasks")
    return stored
