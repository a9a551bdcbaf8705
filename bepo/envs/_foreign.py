"""What environments of other packages share: errors in one line, seeds as tasks, text as actions, and their end."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from textwrap import shorten
from typing import Any

from bepo.core.errors import UserError
from bepo.envs import Environment, Split, Task, content_id, split_by_id

SHORT_ACTIONS = (*"0123456789", "yes", "no", "help")
"""Actions that are tried for a vocabulary where any text is an action."""
_MOST_CHARACTERS = 300
_SEEDS = 10_000_000


class TextEnvironment(Environment):
    """An environment where any text is an action. It has neither a list of actions nor an expert."""

    @property
    def has_expert(self) -> bool:
        """Return False."""
        return False

    @property
    def free_text(self) -> str:
        """Return that no actions are listed."""
        return f"env={self.name} lists no actions"

    def parse_action(self, text: str) -> str | None:
        """Return the text without blanks around it; None for an empty text."""
        return text.strip() or None


class NoExpert:
    """Episodes without an expert."""

    def expert(self, index: int) -> str | None:
        """Return None."""
        return None

    def expert_steps(self, index: int) -> float:
        """Return NaN."""
        return float("nan")


class OpenEnvironments:
    """Environments of another package, by episode. Each is closed once: when its episode ends, or with the batch."""

    def __init__(self) -> None:
        self._open: dict[int, Any] = {}

    def add(self, index: int, env: Any) -> Any:
        """Note and return the environment of an episode."""
        self._open[index] = env
        return env

    def close(self, index: int) -> None:
        """Close the environment of an episode that has ended."""
        if index in self._open:
            close(self._open.pop(index))

    def close_all(self) -> None:
        """Close the environments of all episodes."""
        for index in list(self._open):
            self.close(index)

    def __del__(self) -> None:
        self.close_all()


def close(env: Any) -> None:
    """Close an environment of another package. It may have no ``close``, and errors there change no result."""
    with suppress(Exception, SystemExit):  # any type: the code of an environment from another package
        env.close()


def tasks_of_seeds(name: str, split: Split) -> Iterator[Task]:
    """Yield the seeds of a split as tasks; ``name`` is part of their IDs."""
    for seed in range(_SEEDS):
        task_id = content_id(f"{name} seed {seed}")
        if split_by_id(task_id) == split:
            yield Task(task_id, {"seed": seed})


@contextmanager
def named(env_id: str, doing: str) -> Iterator[None]:
    """Turn any exception of an environment within a ``with`` block into a ``UserError`` that names the environment.

    ``doing`` is the method, such as ``"step"``. The original exception becomes the error's cause.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # any type: the code of an environment from another package
        raise UserError(f"env.id={env_id}: its {doing} raised {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """Return an exception's class and the beginning of its message, and what to do about too many open files."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: run fewer episodes at a time, or raise the limit of this process (ulimit -n)"
    return f"{type(error).__name__}: {shorten(str(error), _MOST_CHARACTERS)}".rstrip(": ")
