"""Errors that are shown to users in one line, and exit statuses of commands."""

import argparse
import difflib
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn, TextIO

GPU_ENVIRONMENT = (
    "python3 -m venv .venv-gpu && .venv-gpu/bin/pip install -r requirements/verl-gpu.txt "
    "&& .venv-gpu/bin/pip install --no-deps -e ."
)
"""The command that makes the environment of verl and vLLM (docs/gpu.md). They need another version of torch than the
project, so they are installed in their own environment."""
_MOST_CHARACTERS = 1200  # length limit of a message, which may quote a file of any size

_NAMED = 12  # choices that a message names, of many


def printable(text: str) -> str:
    """Replace control characters, such as those of escape sequences, by blanks."""
    return "".join(c if c.isprintable() else " " for c in text)


class UserError(ValueError):
    """An error that the user can fix. It is shown as one line of bounded length, without a traceback."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > _MOST_CHARACTERS:
            text = f"{text[: _MOST_CHARACTERS // 2]} ... {text[-_MOST_CHARACTERS // 2 :]}"
        return printable(text)


class Missing(UserError):
    """Something that this machine lacks, and the command that installs it (``bepo.core.settings.Settings.missing``)."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}; to fix it: {fix}")
        self.problem, self.fix = problem, fix


def told(error: BaseException) -> str:
    """Return an error in one line: the message of a ``UserError``, else its class and its message."""
    if isinstance(error, UserError):
        return str(error)
    return str(UserError(f"{type(error).__name__}: {error}".rstrip(": ")))


@contextmanager
def no_exit(whose: str) -> Iterator[None]:
    """Turn ``SystemExit`` of the code of others within a ``with`` block into a ``UserError``.

    Otherwise a command would end in silence, and with the exit status that this code chose.
    """
    try:
        yield
    except SystemExit as error:
        raise UserError(f"{whose} ended the program ({error!r})") from error


def unknown_choice(what: str, value: object, choices: Iterable[object], listed_in: str = "") -> UserError:
    """Return a ``UserError`` that names the value, the choices, and the choice that is spelt most like the value.

    ``listed_in``: a file that lists many choices. Then the message has only those that are spelt most like the value.
    """
    words = sorted(map(str, choices))
    named = difflib.get_close_matches(str(value), words, _NAMED, 0) if listed_in else words
    more = f" and {len(words) - len(named)} more ({listed_in})" if len(named) < len(words) else ""
    return UserError(f"unknown {what} {value!r}; choices: {', '.join(named)}{more}{nearest(value, words)}")


def nearest(value: object, choices: Iterable[str]) -> str:
    """Return "; did you mean X?" for the choice that a value abbreviates (``lr``), or that is spelt most like it.

    Empty if all are too different.
    """
    words = list(choices)
    short = [word for word in words if "_" in word and str(value) == "".join(part[:1] for part in word.split("_"))]
    matches = short or difflib.get_close_matches(str(value), words, 1)
    return f"; did you mean {matches[0]}?" if matches else ""


def exit_code(work: Callable[[], int | None]) -> int:
    """Do the work of a command. Return its exit status (0 for None), or 2 after one line about an error.

    A closed output pipe, as with ``| head``, is not an error.
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
    """Prepare the standard streams for any encoding of the terminal, and for streams that are closed (``2>&-``)."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115 (until the process ends)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the process ends)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str, *, end: str = "\n", file: TextIO | TextIOBase | None = None) -> None:
    """Print a line at once. If the reader of a pipe has gone, drop this and all later output and continue."""
    try:
        print(text, end=end, file=file, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), (file or sys.stdout).fileno())


def status_of(error: OSError) -> int:
    """Print one line about a file that cannot be used, and return exit status 2; return 0 after a closed pipe."""
    if error.filename is None:  # standard output: discard what is still buffered
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"error: {place_of(error)}", file=sys.stderr)
    return 2


def place_of(error: OSError) -> str:
    """Return a line with the file that cannot be read or written, and the reason."""
    return str(UserError(f"{error.filename or 'standard output'}: cannot be read or written ({why(error)})"))


def briefly(value: object) -> str:
    """Return a value as code in one line of at most 100 characters, for a message."""
    return shorten(repr(value), 100)


def why(error: Exception) -> str:
    """Return the system's reason why a path cannot be used, without the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def path_of(text: str) -> Path:
    """Return a path of a command line; ``~`` is the home. Refuse an empty text, which would mean the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty path; . is the current folder")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text!r:.60}: {error}") from None


def whole_number(at_least: int, at_most: int) -> Callable[[str], int]:
    """Return a function that reads a whole number of a command line, and refuses one out of range."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,30}", text.strip()):
            raise argparse.ArgumentTypeError(f"{text!r:.40}: must be a whole number")
        if not at_least <= int(text) <= at_most:
            raise argparse.ArgumentTypeError(f"{text}: must be at least {at_least} and at most {at_most}")
        return int(text)

    return read


class Parser(argparse.ArgumentParser):
    """A parser of command lines that prints an error in one line and exits with status 2."""

    takes_results = False
    """Whether the command has ``--results``, which ``results=FOLDER`` is another spelling of."""

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        """Add an argument."""
        self.takes_results |= "--results" in names
        return super().add_argument(*names, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, ``results=FOLDER`` like ``--results=FOLDER``."""
        words = list(sys.argv[1:] if args is None else args)
        if self.takes_results:
            words = [f"--{word}" if word.startswith("results=") else word for word in words]
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print an error without the usage, and exit with status 2."""
        self.exit(2, f"error: {UserError(message)} (see {self.prog} --help)\n")

    def print_help(self, file: Any = None) -> None:
        """Print the help. A closed output pipe, as with ``| head``, is not an error."""
        ready_streams()
        try:
            super().print_help(file)
            sys.stdout.flush()
        except OSError as error:
            self.exit(status_of(error))
