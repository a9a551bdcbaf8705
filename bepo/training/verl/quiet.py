"""What verl prints goes into a file instead of the terminal."""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path

_LOGGERS = ("verl", "vllm", "ray", "transfer_queue")


class Quiet:
    """A context in which prints go to a file and warnings nowhere. It can be entered again and again."""

    def __init__(self, path: Path | None) -> None:
        """``path`` is the file, which is appended to; None leaves everything on the terminal."""
        # Loggers that are made inside the context keep the file: it stays open until the program ends.
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
        """Write the traceback of an exception into the file."""
        traceback.print_exception(error, file=self._file or sys.stderr)
