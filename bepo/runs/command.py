"""What all Hydra commands share: exit statuses, and one line about a wrong config, also in a multirun."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import cache
from io import StringIO
from typing import NoReturn, TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from hydra.utils import execution_whitelist

from bepo.core.errors import UserError, place_of, printable, ready_streams, status_of
from bepo.runs.compose import CONFIG_ERRORS, explain
from bepo.runs.field_docs import explained
from bepo.runs.texts import with_texts
from bepo.store.runs import Busy

CLASSES = (
    "bepo.sweep.multirun.SweepCheck",
    "bepo.sweep.space.suggest_conditional",
    "logging.Formatter",
    "logging.StreamHandler",
)
"""The classes that a config may name beside sweepers and launchers. Others are refused: a config must not run code."""
_NO_LOGGING_YET = "hydra.hydra_logging.root=null"
"""Hydra opens the handlers of its logging before it calls our code. ``SweepCheck`` checks them, then starts logging."""
_IN_A_CELL = ("bepo.training.verl.*", "verl.*")  # classes that verl's own config names during a run
_RETRY_SECONDS = 2.0  # wait before retrying a cell that another process is working on

_UNUSABLE_PATH = (PermissionError, NotADirectoryError, IsADirectoryError)  # errors of a folder that a setting names

_swept: list[str] = []  # the settings by which the cells of this multirun differ

T = TypeVar("T")


class CellFailed(CompactHydraException):
    """A cell of Hydra's own multirun failed. The error was printed; the other cells run."""


def note_swept(names: Sequence[str]) -> None:
    """Note the settings by which the cells of this process's multirun differ."""
    _swept[:] = names


def varying_overrides() -> list[str]:
    """Return the overrides by which this cell differs from the other cells of the multirun; empty without one."""
    return [o for o in HydraConfig.get().overrides.task if o.lstrip("+~").partition("=")[0] in _swept]


def is_search() -> bool:
    """Return whether this is a trial of Hydra's Optuna sweeper."""
    hydra = HydraConfig.get()
    return hydra.mode == RunMode.MULTIRUN and "optuna" in str(hydra.sweeper.get("_target_"))


def work_of_cell(work: Callable[[list[str]], T]) -> T:
    """Call ``work`` with the overrides of the composed config, and return its result.

    Exits with status 2 after one line about a wrong config, 1 after the traceback of another error, and 130 after
    Ctrl-C. In a multirun, raises ``CellFailed`` instead of exiting.
    """
    _end_with_sweep()
    overrides, is_multirun = HydraConfig.get().overrides.task, HydraConfig.get().mode == RunMode.MULTIRUN
    try:
        if HydraConfig.get().job.chdir:
            raise UserError(
                "hydra.job.chdir=true: paths are those of the folder that a command starts in; leave it out"
            )
        with execution_whitelist(_IN_A_CELL, reset=True):
            return _wait_while_busy(work, overrides) if is_multirun else work(overrides)
    except KeyboardInterrupt:
        print("interrupted; the same command continues from here", file=sys.stderr)
        sys.exit(130)
    except CONFIG_ERRORS as error:
        line = explain(error)
        said = f"{' '.join(overrides)}: {line}" if is_multirun else line
        print(f"error: {printable(said)}", file=sys.stderr)
        status = 2
    except _UNUSABLE_PATH as error:
        line, status = place_of(error), 2
        print(f"error: {line}", file=sys.stderr)
    except Exception as error:
        traceback.print_exc()
        line, status = str(error), 1
    if is_multirun:
        raise CellFailed(line)  # Hydra runs the other cells of the grid
    sys.exit(status)


def _wait_while_busy(work: Callable[[list[str]], T], overrides: list[str]) -> T:
    """Do the work of a cell. While another process works on an equal cell, wait and try again."""
    while True:
        try:
            return work(overrides)
        except Busy:
            time.sleep(_RETRY_SECONDS)


@contextmanager
def _help_explained() -> Iterator[None]:
    """Add the meaning of each config field to the help that is printed within a ``with`` block."""
    with redirect_stdout(StringIO()) as text:
        try:
            yield
        finally:  # Hydra exits after its help
            print(explained(text.getvalue()), end="", file=sys.__stdout__)


@cache
def _end_with_sweep() -> None:
    """End joblib's workers when their multirun is killed. Their runs can continue from their checkpoints."""
    if not multiprocessing.current_process().name.startswith("LokyProcess"):
        return
    sweep = os.getppid()

    def watch() -> None:
        while os.getppid() == sweep != 1:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def results_as_override(arguments: Sequence[str]) -> list[str]:
    """Return arguments with ``results=FOLDER`` in place of ``--results FOLDER`` and ``--results=FOLDER``."""
    words, overrides = list(arguments), list[str]()
    while words:
        word = words.pop(0)
        if word == "--results" and words:
            word = f"--results={words.pop(0)}"
        overrides.append(word.removeprefix("--") if word.startswith("--results=") else word)
    return overrides


def run_command(main: Callable[[], object]) -> None:
    """Run a Hydra command. Its ``--help`` explains the fields.

    Exits with status 2 after one line about a wrong config, and 1 if a cell failed.
    """
    ready_streams()
    given = " ".join(sys.argv[1:])
    sys.argv[1:] = with_texts(results_as_override(sys.argv[1:]))
    place = next((i for i, word in enumerate(sys.argv) if i and "=" in word and word[0] != "-"), len(sys.argv))
    sys.argv.insert(place, _NO_LOGGING_YET)  # not last: argparse would name it beside an unknown option
    argparse.ArgumentParser.error = _option_error  # Hydra's parser would print a page, and escapes as they are
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra raises errors instead of printing them
    try:
        with _help_explained() if {"--help", "-h"} & {*sys.argv} else nullcontext():
            main()
        sys.stdout.flush()
    except BrokenPipeError as error:  # as with --help | head
        sys.exit(status_of(error))
    except CellFailed:
        sys.exit(1)
    except CONFIG_ERRORS as error:
        print(f"error: {printable(explain(error))}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, TypeError, OSError, AssertionError, RuntimeError, ImportError) as error:
        # Hydra raises these too, without naming the override. An assertion has no message: show its source line.
        problem = explain(error) or traceback.extract_tb(error.__traceback__)[-1].line
        print(f"error: {printable(f'{given}: {problem}')}", file=sys.stderr)
        sys.exit(2)


def _option_error(self: argparse.ArgumentParser, message: str) -> NoReturn:
    """Print an error about an option in one line, and exit with status 2."""
    self.exit(2, f"error: {UserError(message)} (see --help)\n")
