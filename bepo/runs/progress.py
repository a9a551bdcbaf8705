"""What a person at a terminal sees of a run, and how they stop it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from bepo.core.phases import report
from bepo.runs.config import Config


class ProgressBar:
    """One bar for all updates of a run, with the newest success, return, gate and validation; without a terminal, a
    line every few seconds."""

    def __init__(self, config: Config, done: int) -> None:
        name = f"{config.credit.name} seed {config.seed}"
        hidden = None if config.progress else True  # None: shown on a terminal only
        self._bar = tqdm(total=config.updates, initial=done, desc=name, unit="update", disable=hidden)
        self._validation: float | None = None
        self._updates = config.updates

    def show(self, row: dict[str, float]) -> None:
        """Add an update, whose row of ``metrics.jsonl`` this is."""
        self._validation = row.get("eval/validation_success", self._validation)
        shown = {
            "success": row["train/success"],
            "return": row["train/return"],
            "gate": row.get("credit/gate_transition_coverage"),
            "validation": self._validation,
        }
        words = {name: f"{value:.2f}" for name, value in shown.items() if value is not None}
        self._bar.set_postfix(words, refresh=False)
        self._bar.update()
        if self._bar.disable:  # there is no terminal: a line now and then
            text = ", ".join(f"{name} {value}" for name, value in words.items())
            report("training", f"update {row['update']} of {self._updates}, {text}")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Let Ctrl-C end the update at hand and checkpoint; a second one stops at once. Yields a list, empty until then."""
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        print("\nstopping after this update (Ctrl-C again: at once)", file=sys.stderr)

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: a launcher decides
        yield received
        return
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)
