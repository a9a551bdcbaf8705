"""How the processes of an engine end, whatever happens to the program: none is left behind.

They carry a mark in their environment. Run as a program, this file is the watchdog; it knows psutil only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "BEPO_ENGINE"  # environment variable of every process that an engine starts
_GRACE = 5.0  # seconds between asking a process to end and ending it
_SEGMENT = "/dev/shm/psm_"
_ROUNDS = 3  # a process that is about to end may start another


class Watchdog:
    """A process that sees the program end, even by SIGKILL, and then ends what the engine started."""

    def __init__(self, mark: str) -> None:
        words = [sys.executable, __file__, mark]
        null, pipe = subprocess.DEVNULL, subprocess.PIPE  # the pipe closes with the program
        self._process = subprocess.Popen(words, stdin=pipe, stdout=null, stderr=null, start_new_session=True)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()


class Patience:
    """Ends the program if a stage does not: a vLLM worker that raises while weights are sent leaves verl waiting."""

    def __init__(self, seconds: float, mark: str) -> None:
        self._seconds, self._mark = seconds, mark
        self._stage: tuple[str, float] | None = None
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, stage: str) -> None:
        self._stage = stage, time.monotonic()

    def end(self) -> None:
        self._stage = None

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._seconds / 4)):
            stage = self._stage
            if stage and time.monotonic() - stage[1] > self._seconds:
                print(
                    f"error: backend=verl, stage {stage[0]}: no end after {self._seconds} s (backend.patience); "
                    "all processes ended, the same command goes on from the checkpoint",
                    file=sys.__stderr__,
                    flush=True,
                )
                end_processes(self._mark)
                os._exit(2)


def end_processes(mark: str, memory: Iterable[Path] = ()) -> None:
    """End every process of the engine with this mark that is still there; then remove their shared memory, and
    ``memory``, that of processes which have ended already."""
    remains = set(memory)
    for _ in range(_ROUNDS):
        left = marked(mark)
        if not left:
            break
        remains |= shared_memory(left)
        for process in left:
            with suppress(psutil.Error):
                process.terminate()
        _, alive = psutil.wait_procs(left, timeout=_GRACE)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=_GRACE)
    for path in remains:
        path.unlink(missing_ok=True)


def shared_memory(processes: Iterable[psutil.Process]) -> set[Path]:
    """Named segments that they use: those of vLLM's queues stay where the process that made them is killed."""
    found = set()
    for process in processes:
        with suppress(OSError):
            lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            found |= {Path(line.split()[5]) for line in lines if _SEGMENT in line and not line.endswith("(deleted)")}
    return found


def marked(mark: str) -> list[psutil.Process]:
    """Processes whose environment has the mark of an engine."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


if __name__ == "__main__":
    sys.stdin.read()
    end_processes(sys.argv[1])
