"""Train the missing runs of grids, with one worker per free core."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bepo.sweep.outcome import GridOutcome
from bepo.sweep.plan import PlannedRun, note_cells
from bepo.sweep.pool import BUSY, RETRY_SECONDS, Pool, Worker, explain_exit, interrupts
from bepo.sweep.show import View, format_corrupt


class Execution:
    """Trains the runs of grids. Runs that another process is working on are tried again later."""

    def __init__(self, runs: Sequence[PlannedRun], pool: Pool, view: View) -> None:
        self.runs, self.pool, self.view = runs, pool, view
        self.outcome = GridOutcome()
        self.pending: list[PlannedRun] = []
        self.busy: dict[str, tuple[PlannedRun, float]] = {}  # by run ID, with the time of the next try
        self.warm_starts: set[str] = set()  # keys of the existing warm starts
        for run in runs:
            self._add(run)

    def _add(self, run: PlannedRun) -> None:
        state = run.progress()
        if state.updates:
            self.warm_starts.add(_warm_start_key(run))
        if state.status == "complete":
            self.outcome.complete.append(run)
        elif state.status == "corrupt":
            self.outcome.refused[run.id] = format_corrupt(run, state)
        elif run.obstacle:
            self.outcome.refused[run.id] = str(run.obstacle)
        else:
            self.pending.append(run)

    def finish(self) -> GridOutcome:
        """Train all missing runs, and return the outcome. After Ctrl-C, end the workers first."""
        for run in self.runs:
            note_cells(run)
        self.view.begin(len(self.outcome.complete), len(self.outcome.refused))
        with interrupts() as received:
            while self.pool.workers or (not received and (self.pending or self.busy)):
                if received:
                    self.pool.stop(len(received))
                else:
                    self._fill()
                for worker in self.pool.ended(0.5):
                    self._ended(worker)
                self._retry_busy()
                self.view.draw(self.pool.workers, self.pending, len(self.busy))
        self.outcome.interrupted = bool(received)
        self.view.end()
        return self.outcome

    def _fill(self) -> None:
        while self.pool.has_free_slot and self.pending:
            run = self._choose()
            self.pending.remove(run)
            if not self._is_elsewhere(run):
                self.view.started(self.pool.start(run))

    def _choose(self) -> PlannedRun:
        """Return the next run; avoid runs that would wait for a warm start that a worker is making."""
        unfinished = {_warm_start_key(worker.run) for worker in self.pool.workers} - self.warm_starts
        return next((run for run in self.pending if _warm_start_key(run) not in unfinished), self.pending[0])

    def _ended(self, worker: Worker) -> None:
        run = worker.run
        self.warm_starts.add(_warm_start_key(run))
        if worker.exit_code == BUSY and not worker.stop_requests:
            self._note_busy(run)
        elif run.progress().status == "complete":  # whatever its exit status
            self.outcome.complete.append(run)
            self.view.completed(worker)
        elif worker.stop_requests:
            self.view.stopped(worker)
        else:
            self.outcome.failed[run.id] = explain_exit(worker.exit_code)
            self.view.failed(worker)

    def _note_busy(self, run: PlannedRun) -> None:
        self.busy[run.id] = run, time.monotonic() + RETRY_SECONDS

    def _retry_busy(self) -> None:
        for run, retry_at in list(self.busy.values()):
            if time.monotonic() >= retry_at:
                del self.busy[run.id]
                if not self._is_elsewhere(run):
                    self.pending.append(run)  # the other process has ended

    def _is_elsewhere(self, run: PlannedRun) -> bool:
        """Return whether another process has completed the run or works on it, and note that."""
        if run.progress().status == "complete":
            self.outcome.complete.append(run)
            self.outcome.elsewhere.append(run)
        elif run.folder.is_locked():
            self._note_busy(run)
        else:
            return False
        return True


def _warm_start_key(run: PlannedRun) -> str:
    """Return a key that is equal for runs with the same warm start."""
    c = run.config
    return repr((c.env, c.agent, c.policy, c.backend, c.rollout.train_tasks, c.evaluation))
