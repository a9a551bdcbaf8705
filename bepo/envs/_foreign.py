"""Errors of environments from other packages, reported as one line instead of a traceback through their code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

from bepo.core.errors import UserError

_MOST_CHARACTERS = 300


@contextmanager
def named(env_id: str, doing: str) -> Iterator[None]:
    """Turn any exception of an environment within a ``with`` block into a ``UserError`` that names the environment.

    ``doing`` is the method, such as ``"step"``. The original exception becomes the error's cause.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # any type: the code of an environment from another package
        raise UserError(f"env.id={env_id}: its {doing} raised {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """Return an exception's class and the beginning of its message."""
    return f"{type(error).__name__}: {shorten(str(error), _MOST_CHARACTERS)}".rstrip(": ")
