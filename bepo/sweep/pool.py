"""Worker processes for runs, one run each, so that a crash of one run does not affect the others or the sweep.

Workers are forked from a server that has imported torch and transformers once. A worker starts within milliseconds.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

from bepo.core.errors import UserError
from bepo.runs.config import Config, cell_overrides
from bepo.store.files import DiskFull
from bepo.store.runs import Busy
from bepo.sweep.plan import PlannedRun

BAD_INPUT, DISK_FULL, BUSY, INTERRUPTED = 2, 74, 75, 130
"""Exit codes of a worker. ``BUSY``: another process is working on the run."""
_LONGEST_FOLDER = 60  # bytes of the folder of a socket; a path may have 107, and multiprocessing adds 32


@dataclass
class Worker:
    """A process that trains one run."""

    run: PlannedRun
    process: BaseProcess
    started: float = field(default_factory=time.monotonic)
    stop_requests: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of a process that has ended; negative for the signal that killed it."""
        assert self.process.exitcode is not None, "the worker has not ended"
        return self.process.exitcode

    def stop(self) -> None:
        """Ask the worker to stop after the current update; the second time, to stop at once."""
        self.stop_requests += 1
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)


# Modules that a run imports late, which takes several seconds. A missing one only makes a worker start slower.
_PRELOADED = [
    "bepo.runs.evaluate",
    "bepo.training.local_engine",
    "bepo.policies.lm.tiny_model",
    "wandb.sdk.launch",
    "nltk.stem.porter",
]
_PRELOADED += [f"transformers.models.{name}" for name in ("auto.modeling_auto", "qwen2.modeling_qwen2")]


class Pool:
    """At most ``size`` workers at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.workers: list[Worker] = []
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)

    @property
    def has_free_slot(self) -> bool:
        """Whether another worker can start."""
        return len(self.workers) < self.size

    def start(self, run: PlannedRun) -> Worker:
        """Start a worker on a run."""
        run.folder.path.mkdir(parents=True, exist_ok=True)
        arguments = (run.config, cell_overrides(run.config, run.cells[0].overrides), run.log)
        with _short_temporary_folder(), _sigterm_ignored():
            forkserver.ensure_running()
        process = self._context.Process(target=train_in_process, args=arguments, name=run.id)
        process.start()
        worker = Worker(run, process)
        self.workers.append(worker)
        return worker

    def ended(self, timeout: float) -> list[Worker]:
        """Remove and return the workers that have ended. Wait for one at most ``timeout`` seconds."""
        connection.wait([w.process.sentinel for w in self.workers], timeout)
        ended = [w for w in self.workers if not w.process.is_alive()]
        self.workers = [w for w in self.workers if w not in ended]
        return ended

    def stop(self, requests: int) -> None:
        """Stop the workers: after the current update for one request, at once for two, by force for more."""
        for worker in self.workers:
            if requests > 2:
                worker.process.kill()
            elif worker.stop_requests < requests:
                worker.stop()


@contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """Use a temporary folder with a short path within a ``with`` block, because paths of sockets are limited."""
    before = tempfile.gettempdir()
    if len(os.fsencode(before)) > _LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def _sigterm_ignored() -> Iterator[None]:
    """Ignore SIGTERM within a ``with`` block. A process that starts in it ignores SIGTERM until it ends.

    Slurm sends it to all processes of a job. The sweep then asks its workers to stop.
    """
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Yield a list of the received signals that ask the sweep to stop (Ctrl-C and SIGTERM)."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def explain_exit(code: int) -> str:
    """Return the meaning of a worker's exit code. It is negative for a process that a signal killed."""
    if code >= 0:
        known = {BAD_INPUT: "bad input", DISK_FULL: "the disk is full", INTERRUPTED: "interrupted"}
        return known.get(code, f"exit status {code}")
    name = signal.Signals(-code).name
    return f"killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")


def train_in_process(config: Config, overrides: list[str], log: Path) -> None:
    """Train one run and exit with one of the codes above. The output of the run goes to its log."""
    from bepo.runs.evaluate import evaluate  # the server has imported these already
    from bepo.runs.train import train

    os.setpgid(0, 0)  # Ctrl-C reaches only the sweep, which passes it on once
    signal.signal(signal.SIGTERM, lambda *_: None)  # Slurm's too; programs that a run starts would inherit SIG_IGN
    _end_with_parent()
    with log.open("a", buffering=1, encoding="utf-8") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.stdout = sys.stderr = file  # in UTF-8, whatever the terminal's encoding is
        print(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(overrides)}", flush=True)
        faulthandler.enable(file)
        try:
            evaluate(config, overrides) if config.is_evaluation else train(config, overrides)
            print(f"--- {sum(os.times()[:4]):.1f} s of CPU", flush=True)
        except Busy as error:
            print(error, flush=True)
            sys.exit(BUSY)
        except UserError as error:
            print(f"error: {error}", flush=True)
            sys.exit(DISK_FULL if isinstance(error, DiskFull) else BAD_INPUT)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


def _end_with_parent() -> None:
    """End this worker when its sweep is killed. The run can continue from its checkpoint."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
