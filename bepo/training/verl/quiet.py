"""Redirects verl's output from the terminal to a file."""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

_LOGGERS = ("verl", "vllm", "ray", "transfer_queue")


class Quiet:
    """A reusable context that writes output to a file and drops warnings."""

    def __init__(self, path: Path | None) -> None:
        """``path`` is the file to append to; None leaves everything on the terminal."""
        # Loggers that are made inside the context keep using the file, so it stays open until the program ends.
        self._file = path.open("a", buffering=1, encoding="utf-8") if path else None
        self._stack = ExitStack()
        if self._file is not None:
            for name in _LOGGERS:
                logging.getLogger(name).propagate = False
                logging.getLogger(name).addHandler(logging.StreamHandler(self._file))

    def __enter__(self) -> Quiet:
        if self._file is not None:
            self._stack.enter_context(redirect_stdout(self._file))
            self._stack.enter_context(redirect_stderr(self._file))
            self._stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def note(self, error: BaseException) -> None:
        """Write the traceback of an exception to the file."""
        traceback.print_exception(error, file=self._file or sys.stderr)
