"""Runs in worker processes, one each: whatever a run does to its process, the others and the sweep go on.

Workers are forked from a server that has imported torch and transformers once, so a worker is there in milliseconds.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from bepo.config import Config, cell_overrides
from bepo.errors import UserError
from bepo.record import Busy
from bepo.sweep.plan import Run

DONE, BAD_INPUT, BUSY, INTERRUPTED = 0, 2, 75, 130


@dataclass
class Worker:
    """A run at work in a process of its own."""

    run: Run
    process: BaseProcess
    started: float = field(default_factory=time.monotonic)
    stops: int = 0  # how often it was asked to stop

    @property
    def exit_code(self) -> int | None:
        return self.process.exitcode

    def stop(self) -> None:
        """Ask for a checkpoint after the update at hand; a second time: stop at once."""
        self.stops += 1
        if self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)


class Pool:
    """At most ``size`` workers at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.workers: list[Worker] = []
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["bepo.train", "wandb.sdk.launch"])  # wandb.init imports the latter: 1 s

    @property
    def has_room(self) -> bool:
        return len(self.workers) < self.size

    def start(self, run: Run) -> Worker:
        run.folder.path.mkdir(parents=True, exist_ok=True)
        cell = run.cells[0]
        arguments = (run.config, cell_overrides(cell.overrides), run.log)
        process = self._context.Process(target=_work, args=arguments, name=run.id)
        process.start()
        worker = Worker(run, process)
        self.workers.append(worker)
        return worker

    def ended(self, timeout: float) -> list[Worker]:
        """Workers that have ended; waits for one, but no longer than ``timeout`` seconds."""
        connection.wait([w.process.sentinel for w in self.workers], timeout)
        over = [w for w in self.workers if not w.process.is_alive()]
        self.workers = [w for w in self.workers if w not in over]
        return over

    def stop(self, times: int) -> bool:
        """First after the update at hand, then at once, then by force. True when nothing is at work any more."""
        for worker in self.workers:
            if times > 2:
                worker.process.kill()
            elif worker.stops < times:
                worker.stop()
        return not self.workers


def explain(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return {BAD_INPUT: "bad input", INTERRUPTED: "interrupted"}.get(code, f"exit status {code}")
    name = signal.Signals(-code).name
    return f"killed by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")


def _work(config: Config, overrides: list[str], log: Path) -> None:
    """A worker's life. What the run prints goes to its log."""
    from bepo.train import run  # imported by the server already

    os.setpgid(0, 0)  # Ctrl-C goes to the sweep, which passes it on once
    _end_with_parent()
    with log.open("a") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        print(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(overrides)}", flush=True)
        faulthandler.enable(file)
        try:
            run(config, overrides)
            print(f"--- {sum(os.times()[:4]):.1f} s of CPU", flush=True)
        except Busy as error:
            print(error, flush=True)
            sys.exit(BUSY)
        except UserError as error:
            print(f"error: {error}", flush=True)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


def _end_with_parent() -> None:
    """A sweep that is killed takes its workers with it; their runs go on from their checkpoints."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
