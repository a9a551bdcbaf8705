"""What environments of other packages share: errors in one line, seeds as tasks, and text as actions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

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
    """Return an exception's class and the beginning of its message."""
    return f"{type(error).__name__}: {shorten(str(error), _MOST_CHARACTERS)}".rstrip(": ")
