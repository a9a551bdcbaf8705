"""The exceptions that are shown to users in one line."""

import argparse
import difflib
import io
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import TextIOBase
from pathlib import Path
from typing import Any, NoReturn, TextIO

GPU_ENVIRONMENT = (
    "python3 -m venv .venv-gpu && .venv-gpu/bin/pip install -r requirements/verl-gpu.txt "
    "&& .venv-gpu/bin/pip install --no-deps -e ."
)
"""The command that makes the environment of verl and vLLM (docs/gpu.md): their torch is another than the project's, so
nothing of theirs is installed beside it."""
_MOST_CHARACTERS = 1200  # of a message; it may quote a file of any size


def printable(text: str) -> str:
    """Return a text in which blanks replace all that a terminal would act on, such as escape sequences."""
    return "".join(c if c.isprintable() else " " for c in text)


class UserError(ValueError):
    """A mistake a user can mend. Shown as one line of bounded length, without a traceback."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > _MOST_CHARACTERS:
            text = f"{text[: _MOST_CHARACTERS // 2]} ... {text[-_MOST_CHARACTERS // 2 :]}"
        return printable(text)


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


def exit_code(work: Callable[[], int | None]) -> int:
    """Do the work of a command that writes and prints; return its status (0 for None), or 2 after one line on an error.

    A reader that has seen enough of what is printed is no mistake.
    """
    ready_streams()
    try:
        status = work() or 0
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        return status_of(error)
    return status


def ready_streams() -> None:
    """Let a command print whatever the terminal's encoding is, and although a stream is closed (``2>&-``)."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115 (until the process ends)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the process ends)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, *, end: str = "\n", file: TextIO | TextIOBase | None = None) -> None:
    """Print a line. Where its reader has gone, nothing is printed from then on, and the work goes on."""
    try:
        print(text, end=end, file=file, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), (file or sys.stdout).fileno())


def status_of(error: OSError) -> int:
    """Return the exit status after a file could not be used, and say it in one line; 0 after a closed pipe."""
    if error.filename is None:  # standard output: what is left of it goes nowhere
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"error: {place_of(error)}", file=sys.stderr)
    return 2


def place_of(error: OSError) -> str:
    """Return which file cannot be used, and why."""
    return str(UserError(f"{error.filename or 'standard output'}: cannot be read or written ({why(error)})"))


def why(error: Exception) -> str:
    """Return what the system says about a path that cannot be used, without the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


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

    def print_help(self, file: Any = None) -> None:
        """Print the help; a reader that has seen enough of it is no mistake."""
        ready_streams()
        try:
            super().print_help(file)
            sys.stdout.flush()
        except OSError as error:
            self.exit(status_of(error))
