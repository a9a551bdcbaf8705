"""The scheduler of grids and searches: it gives runs to free workers until all are done, or until Ctrl-C."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from bepo.sweep.plan import PlannedRun
from bepo.sweep.pool import BUSY, Pool, Worker, explain_exit, interrupts
from bepo.sweep.show import View

_RETRY_SECONDS = 2.0  # until a run on which another process works is tried again


class Scheduler(ABC):
    """Trains runs, one with each worker of a pool. A subclass says which run comes next, and hears how each ended."""

    def __init__(self, pool: Pool, view: View) -> None:
        self.pool, self.view = pool, view
        self.pending: list[PlannedRun] = []
        self.busy: list[tuple[PlannedRun, float]] = []
        """Runs on which another process or trial works, with the time of the next try. Trials may share a run."""

    @abstractmethod
    def next_run(self) -> PlannedRun | None:
        """Return the run to start now, and remove it from those that are pending; None if all must wait."""

    def completed(self, run: PlannedRun, elsewhere: bool) -> None:  # noqa: B027 (a search looks at its trials)
        """Note a run that is complete. ``elsewhere``: another process has trained it."""

    @abstractmethod
    def failed(self, run: PlannedRun, reason: str) -> None:
        """Note a run whose worker has failed."""

    def watch(self) -> None:  # noqa: B027 (a grid needs nothing)
        """Look at the runs at work, a few times a second."""

    def n_elsewhere(self) -> int:
        """Return the number of runs that other processes work on."""
        return len(self.busy)

    def is_done(self) -> bool:
        """Return whether nothing is left, here or elsewhere, once no worker is at work."""
        return not self.pending and not self.n_elsewhere()

    def work(self) -> bool:
        """Train all runs. Return whether Ctrl-C stopped this; the workers have ended then, and after any error too."""
        with interrupts() as received:
            try:
                while True:
                    if received:
                        self.pool.stop(len(received))
                    else:
                        self._fill()
                    if not self.pool.workers and (received or self.is_done()):
                        return bool(received)
                    for worker in self.pool.ended(0.5):
                        self._ended(worker)
                    self.watch()
                    self.view.draw(self.pool.workers, self.pending, self.n_elsewhere())
            except BaseException:
                while self.pool.workers:
                    self.pool.stop(1)  # after the current update; the same command continues the runs
                    self.pool.ended(0.5)
                raise

    def _fill(self) -> None:
        """Start runs while there are free workers."""
        due = [run for run, retry_at in self.busy if time.monotonic() >= retry_at]
        self.busy = [entry for entry in self.busy if entry[0] not in due]
        self.pending += due
        while self.pool.has_free_slot and (run := self.next_run()):
            if run.progress().status == "complete":
                self.completed(run, elsewhere=True)
                self.view.n_complete += 1
            elif run.folder.is_locked():
                self._try_later(run)
            else:
                self.view.started(self.pool.start(run))

    def _try_later(self, run: PlannedRun) -> None:
        self.busy.append((run, time.monotonic() + _RETRY_SECONDS))

    def _ended(self, worker: Worker) -> None:
        run = worker.run
        if worker.exit_code == BUSY and not worker.stop_requests:
            self._try_later(run)
        elif run.progress().status == "complete":  # whatever its exit status
            self.completed(run, elsewhere=False)
            self.view.completed(worker)
        elif worker.stop_requests:
            self.view.stopped(worker)
        else:
            self.failed(run, explain_exit(worker.exit_code))
            self.view.failed(worker)
