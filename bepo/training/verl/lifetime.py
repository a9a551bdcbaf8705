"""Ends all processes of an engine, whatever happens to the program.

Every process of an engine has its mark, an environment variable. Run as a program, this file is the watchdog; it needs
only psutil.
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

MARK = "BEPO_ENGINE"  # name of the environment variable
_GRACE = 5.0  # seconds between asking a process to end and killing it
_SEGMENT = "/dev/shm/psm_"
_ROUNDS = 3  # repeat, because a process may start another one before it ends


class Watchdog:
    """A process that waits for the end of the program, even by SIGKILL, and then ends the engine's processes."""

    def __init__(self, mark: str) -> None:
        command = [sys.executable, __file__, mark]
        null, pipe = subprocess.DEVNULL, subprocess.PIPE  # the end of the program closes the pipe
        self._process = subprocess.Popen(command, stdin=pipe, stdout=null, stderr=null, start_new_session=True)

    def stop(self) -> None:
        """End the remaining processes, then the watchdog."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class StageTimeout:
    """Ends the program if a stage exceeds its timeout.

    verl needs it: it waits for ever if a vLLM worker fails while it receives weights.
    """

    def __init__(self, seconds: float, mark: str) -> None:
        """``seconds`` is the timeout of one stage."""
        self._seconds, self._mark = seconds, mark
        self._stage: tuple[str, float] | None = None  # its name, and when it began
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, stage: str) -> None:
        """Start the timeout of a stage."""
        self._stage = stage, time.monotonic()

    def end(self) -> None:
        """End the timeout, because the stage has ended."""
        self._stage = None

    def stop(self) -> None:
        """End the thread that checks the timeout."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._seconds / 4)):
            stage = self._stage
            if stage and time.monotonic() - stage[1] > self._seconds:
                print(
                    f"error: backend=verl, stage {stage[0]}: timeout after {self._seconds} s (backend.patience); "
                    "all processes were ended; repeat the command to continue from the last checkpoint",
                    file=sys.__stderr__,
                    flush=True,
                )
                end_processes(self._mark)
                os._exit(2)


def end_processes(mark: str, memory: Iterable[Path] = ()) -> None:
    """End every process with this mark, and remove the shared memory of these processes.

    ``memory`` are further segments to remove, of processes that have ended before.
    """
    segments = set(memory)
    for _ in range(_ROUNDS):
        processes = marked_processes(mark)
        if not processes:
            break
        segments |= shared_memory(processes)
        for process in processes:
            with suppress(psutil.Error):
                process.terminate()
        _, alive = psutil.wait_procs(processes, timeout=_GRACE)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=_GRACE)
    for path in segments:
        path.unlink(missing_ok=True)


def shared_memory(processes: Iterable[psutil.Process]) -> set[Path]:
    """Return the named segments of shared memory of those processes that this user may inspect.

    vLLM's queues make such segments. They remain if their process is killed.
    """
    segments = set()
    for process in processes:
        with suppress(OSError):
            lines = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8").splitlines()
            segments |= {Path(line.split()[5]) for line in lines if _SEGMENT in line and not line.endswith("(deleted)")}
    return segments


def unused_memory(since: float) -> set[Path]:
    """Return this user's segments that were made after ``since`` (seconds since the epoch) and that no process uses.

    Ray may kill processes before the watchdog has seen which memory they use.
    """
    paths = set()
    for path in Path("/dev/shm").glob(f"{Path(_SEGMENT).name}*"):
        with suppress(OSError):  # it may be removed at any time
            status = path.stat()
            paths |= {path} if status.st_uid == os.getuid() and status.st_mtime >= since else set()
    if not paths:
        return paths
    time.sleep(1)  # a new segment may be in use only a moment later
    return paths - shared_memory(psutil.process_iter())


def marked_processes(mark: str) -> list[psutil.Process]:
    """Return the processes whose environment has this mark."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                processes.append(process)
    return processes


def cpu_seconds(mark: str) -> float:
    """Return the CPU seconds that the processes with this mark have used so far."""
    total = 0.0
    for process in marked_processes(mark):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


if __name__ == "__main__":
    began = time.time()
    sys.stdin.read()
    end_processes(sys.argv[1])
    for path in unused_memory(began):
        path.unlink(missing_ok=True)
