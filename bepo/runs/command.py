"""What commands that Hydra composes have in common: a wrong config is one line and exit status 2, in a grid too."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import cache
from io import StringIO
from typing import TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from hydra.utils import execution_whitelist

from bepo.core.errors import place_of, ready_streams, status_of
from bepo.runs.compose import CONFIG_ERRORS, explain
from bepo.runs.field_docs import explained
from bepo.store.runs import Busy

CLASSES = (
    "bepo.sweep.multirun.SweepCheck",
    "bepo.sweep.space.suggest_conditional",
    "logging.Formatter",
    "logging.StreamHandler",
)
"""What a config may have Hydra make, beside its sweepers and launchers: a file of a stranger names nothing else."""
_IN_A_CELL = ("bepo.training.verl.*", "verl.*")  # what verl's own config names while a run works
_RETRY_SECONDS = 2.0  # before a cell that another process works on is tried again

_UNUSABLE_PATH = (PermissionError, NotADirectoryError, IsADirectoryError)  # a folder that a setting names

T = TypeVar("T")


class CellFailed(CompactHydraException):
    """A cell of Hydra's own multirun failed, which was said already; the others run."""


def work_of_cell(work: Callable[[list[str]], T]) -> T:
    """Do what a command does with a composed config, given its overrides, and return what comes of it.

    Exits with status 2 after one line about a wrong config, 1 after another error's traceback, and 130 after Ctrl-C.
    Raises ``CellFailed`` instead where it is a cell of a grid.
    """
    _end_with_sweep()
    overrides, is_multirun = HydraConfig.get().overrides.task, HydraConfig.get().mode == RunMode.MULTIRUN
    try:
        with execution_whitelist(_IN_A_CELL, reset=True):
            return _without_haste(work, overrides) if is_multirun else work(overrides)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        sys.exit(130)
    except CONFIG_ERRORS as error:
        line = explain(error)
        print(f"error: {' '.join(overrides)}: {line}" if is_multirun else f"error: {line}", file=sys.stderr)
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


def _without_haste(work: Callable[[list[str]], T], overrides: list[str]) -> T:
    """Do the work of a cell; where another process does it already, because two cells are equal, wait for that one."""
    while True:
        try:
            return work(overrides)
        except Busy:
            time.sleep(_RETRY_SECONDS)


@contextmanager
def _help_explained() -> Iterator[None]:
    """Print what is printed within a ``with`` block with the meaning of each field of a config beside it."""
    with redirect_stdout(StringIO()) as text:
        try:
            yield
        finally:  # Hydra exits where it has shown its help
            print(explained(text.getvalue()), end="", file=sys.__stdout__)


@cache
def _end_with_sweep() -> None:
    """Let a multirun that is killed take joblib's workers with it; their runs go on from their checkpoints."""
    if not multiprocessing.current_process().name.startswith("LokyProcess"):
        return
    sweep = os.getppid()

    def watch() -> None:
        while os.getppid() == sweep != 1:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_command(main: Callable[[], object]) -> None:
    """Run a command of Hydra's, whose ``--help`` says what fields mean.

    Exits with status 2 after one line about a wrong config, 1 where a cell failed.
    """
    ready_streams()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra leaves it to us to say what is wrong
    try:
        with _help_explained() if {"--help", "-h"} & {*sys.argv} else nullcontext():
            main()
        sys.stdout.flush()
    except BrokenPipeError as error:  # the reader of --help has seen enough
        sys.exit(status_of(error))
    except CellFailed:
        sys.exit(1)
    except CONFIG_ERRORS as error:
        print(f"error: {explain(error)}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, TypeError, OSError, AssertionError, RuntimeError, ImportError) as error:
        # Hydra's too, but it does not say of which override
        problem = explain(error) or traceback.extract_tb(error.__traceback__)[-1].line  # an assertion has no message
        print(f"error: {' '.join(sys.argv[1:])}: {problem}", file=sys.stderr)
        sys.exit(2)
