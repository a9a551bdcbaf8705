"""The exceptions that are shown to users in one line."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

GPU_ENVIRONMENT = (
    "python3 -m venv .venv-gpu && .venv-gpu/bin/pip install -r requirements/verl-gpu.txt "
    "&& .venv-gpu/bin/pip install --no-deps -e ."
)
"""The command that makes the environment of verl and vLLM (docs/gpu.md): their torch is another than the project's, so
nothing of theirs is installed beside it."""
_MOST_CHARACTERS = 1200  # of a message; it may quote a file of any size


class UserError(ValueError):
    """A mistake a user can mend. Shown as one line of bounded length, without a traceback."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > _MOST_CHARACTERS:
            text = f"{text[: _MOST_CHARACTERS // 2]} ... {text[-_MOST_CHARACTERS // 2 :]}"
        return "".join(c if c.isprintable() else " " for c in text)  # what a terminal would act on stays in the file


class Missing(UserError):
    """What a machine lacks for something, and the one command that gets it (see
    ``bepo.core.settings.Settings.missing``)."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; to mend it: {remedy}")
        self.problem, self.remedy = problem, remedy


def choose(what: str, value: object, choices: Iterable[object]) -> UserError:
    """Return a ``UserError`` that names the value and the choices, and the nearest of them if one is near."""
    words = sorted(map(str, choices))
    return UserError(f"unknown {what} {value!r}; choices: {', '.join(words)}{nearest(value, words)}")


def nearest(value: object, choices: Iterable[str]) -> str:
    """Return "; did you mean X?" for the choice that is spelt most like a value; empty if none is."""
    found = difflib.get_close_matches(str(value), list(choices), 1)
    return f"; did you mean {found[0]}?" if found else ""


def exit_code(work: Callable[[], None]) -> int:
    """Do the work of a command that writes and prints; return 0, or 2 after one line that says what is wrong.

    A reader that has seen enough of what is printed is no mistake.
    """
    try:
        work()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"error: {error.filename}: cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    return 0


def path_of(text: str) -> Path:
    """Return a path of a command line. Refuse an empty one, which would be the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty path; . is the current folder")
    return Path(text)


class Parser(argparse.ArgumentParser):
    """A parser of command lines that says in one line what is wrong with one, and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        """Say it without the usage, which ``--help`` shows."""
        self.exit(2, f"error: {message} (--help shows what {self.prog} takes)\n")
