"""Progress lines for the phases before and after training, such as a warm start."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from io import TextIOBase
from typing import Protocol, TextIO, runtime_checkable

from bepo.core.errors import say

_TERMINAL, _PIPE = 0.1, 5.0  # seconds between two lines
_listeners: list[Listener] = []


@runtime_checkable
class Listener(Protocol):
    """Shows what is reported. Only the newest listener receives reports."""

    def show(self, phase: str, detail: str) -> None:
        """Show the progress of a phase."""

    def show_within(self, detail: str) -> None:
        """Show the progress of a part of the current phase."""

    def note(self, line: str) -> None:
        """Print a line that stays."""


class Phases:
    """Writes progress to a stream: one changing line on a terminal, else a line every five seconds.

    A phase of less than five seconds writes nothing to a pipe or a file.
    """

    def __init__(self, stream: TextIO | TextIOBase, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._terminal = stream.isatty()
        self._phase, self._detail, self._last, self._open = "", "", 0.0, False

    def show(self, phase: str, detail: str) -> None:
        """Show the progress of a phase, unless a line was written just before."""
        self._begin(phase)
        self._detail = detail
        self._write(f"{phase}: {detail}")

    def show_within(self, detail: str) -> None:
        """Show the progress of a part of the current phase, such as one pass of an evaluation."""
        self._begin(self._phase or "training")
        self._write(f"{self._phase}: {self._detail}{', ' if self._detail else ''}{detail}")

    def _begin(self, phase: str) -> None:
        if phase != self._phase:
            self.close()
            self._phase, self._last = phase, -math.inf if self._terminal else self._clock()

    def _write(self, line: str) -> None:
        now = self._clock()
        if now - self._last < (_TERMINAL if self._terminal else _PIPE):
            return
        self._last, self._open = now, self._terminal
        before, after = ("\r\x1b[K", "") if self._terminal else ("", "\n")
        say(f"{before}{line}{after}", end="", file=self._stream)

    def note(self, line: str) -> None:
        """Print a line that stays."""
        self.close()
        say(line, file=self._stream)

    def close(self) -> None:
        """End the changing line, if there is one."""
        if self._open:
            say("", file=self._stream)
        self._phase, self._detail, self._open = "", "", False


@contextmanager
def shown(wanted: bool = True) -> Iterator[None]:
    """Show the progress that is reported within a ``with`` block on stderr, if ``wanted``."""
    phases = Phases(sys.stderr)
    try:
        with listening(phases) if wanted else nullcontext():
            yield
    finally:
        phases.close()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send what is reported within a ``with`` block to ``listener`` only."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(phase: str, detail: str) -> None:
    """Report the progress of a phase, as in ``report("warm start", "step 150")``. Without a listener, do nothing."""
    for phases in _listeners[-1:]:
        phases.show(phase, detail)


def report_within(detail: str) -> None:
    """Report the progress of a part of the current phase, as in ``report_within("step 3 of at most 15")``."""
    for phases in _listeners[-1:]:
        phases.show_within(detail)


def note(line: str) -> None:
    """Report a line that stays on the screen. Without a listener, do nothing."""
    for phases in _listeners[-1:]:
        phases.note(line)
