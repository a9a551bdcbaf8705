"""The progress bar of a run, and its end on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tqdm import tqdm

from bepo.core.phases import listening, report
from bepo.runs.config import Config

_REDRAW_SECONDS = 0.3  # between two redrawings of the bar within an update


def in_notebook() -> bool:
    """Return whether this is the kernel of a notebook. Its output is shown, but it is not a terminal."""
    marimo = sys.modules.get("marimo")
    return "ipykernel" in sys.modules or (marimo is not None and marimo.running_in_notebook())


class ProgressBar:
    """A bar over all updates of a run, with the newest success, return, gate and validation success.

    Without a terminal, it prints a line every few seconds.
    """

    def __init__(self, config: Config, done: int) -> None:
        name = f"{config.credit.name} seed {config.seed}"
        hidden = (False if in_notebook() else None) if config.progress else True  # None: shown on a terminal only
        self._bar = tqdm(total=config.updates, initial=done, desc=name, unit="update", disable=hidden)
        self._validation: float | None = None
        self._words, self._drawn = "", 0.0
        self._listening = ExitStack()
        self._updates, self._first, self._began = config.updates, done, time.monotonic()

    def advance(self, row: dict[str, float]) -> None:
        """Add an update with its row of ``metrics.jsonl``."""
        self._validation = row.get("eval/validation_success", self._validation)
        shown = {
            "success": row["train/success"],
            "return": row["train/return"],
            "gate": row.get("credit/gate_transition_coverage"),
            "validation": self._validation,
        }
        words = {name: f"{value:.2f}" for name, value in shown.items() if value is not None}
        self._words = ", ".join(f"{name} {value}" for name, value in words.items())
        self._bar.set_postfix_str(self._words, refresh=False)
        self._bar.update()
        if self._bar.disable:  # without a terminal
            report("training", f"update {row['update']} of {self._updates}, {self._words}{self._left(row['update'])}")

    def _left(self, update: float) -> str:
        """Return the time that the remaining updates take at the speed of this session."""
        made, remaining = update - self._first, self._updates - update
        seconds = (time.monotonic() - self._began) / made * remaining if made else 0
        return f", about {tqdm.format_interval(seconds)} left" if round(seconds) else ""

    def show_within(self, detail: str) -> None:
        """Show the progress within an update behind the bar, at most a few times a second."""
        if time.monotonic() - self._drawn > _REDRAW_SECONDS:
            self._drawn = time.monotonic()
            self._bar.set_postfix_str(f"{self._words}{', ' * bool(self._words)}{detail}")

    def show(self, phase: str, detail: str) -> None:
        """Show the progress between updates behind the bar, such as that of an evaluation."""
        self.show_within(f"{phase} {detail}")

    def note(self, line: str) -> None:
        """Write a line above the bar."""
        self._bar.write(line, file=sys.stderr)

    def __enter__(self) -> ProgressBar:
        if not self._bar.disable:
            self._listening.enter_context(listening(self))
        else:
            report("training", f"update {self._bar.n + 1} of {self._updates}")
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.close()
        self._bar.close()


@contextmanager
def interrupts(until: str) -> Iterator[list[int]]:
    """Delay Ctrl-C until the block has finished its current work, named by ``until``. A second Ctrl-C stops at once.

    SIGTERM is treated alike, unless a launcher or a backend handles it. Yields a list that is empty until the first
    signal.
    """
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        print(f"\nstopping after {until} (Ctrl-C again stops at once)", file=sys.stderr)

    numbers = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        numbers.append(signal.SIGTERM)
    try:
        before = {number: signal.signal(number, note) for number in numbers}
    except ValueError:  # not the main thread: the launcher handles signals
        yield received
        return
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
