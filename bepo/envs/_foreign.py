"""Errors of environments from other packages: a line for the user, not a traceback through their code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

from bepo.core.errors import UserError

_MOST_CHARACTERS = 300


@contextmanager
def named(env_id: str, doing: str) -> Iterator[None]:
    """Turn what an environment raises within a ``with`` block into a ``UserError`` that names it.

    ``doing`` is the method, such as ``"step"``; the environment's own exception is the error's cause.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of any kind: the environment is not ours
        raise UserError(f"env.id={env_id}: its {doing} raised {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """Return an exception's class with the beginning of what it says."""
    return f"{type(error).__name__}: {shorten(str(error), _MOST_CHARACTERS)}".rstrip(": ")
