"""Run what is missing: one worker a free core, until nothing is left that this process could do."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bepo.sweep import show
from bepo.sweep.plan import Run, note
from bepo.sweep.pool import BUSY, DONE, Pool, Worker, explain

LOOK_AGAIN = 2.0  # seconds before trying a run that another process holds


@dataclass
class Outcome:
    """What became of the runs."""

    complete: list[Run] = field(default_factory=list)
    elsewhere: list[Run] = field(default_factory=list)  # of those, by other processes
    failed: dict[str, str] = field(default_factory=dict)  # run id -> why; its log says more
    refused: dict[str, str] = field(default_factory=dict)  # never begun: run id -> why
    interrupted: bool = False

    @property
    def is_bad(self) -> bool:
        return bool(self.failed or self.refused)


class Execution:
    """Works off ``pending``; runs that another process holds are looked at again later."""

    def __init__(self, runs: Sequence[Run], pool: Pool, view: show.View) -> None:
        self.runs, self.pool, self.view = runs, pool, view
        found = [(run, run.progress()) for run in runs]
        self.outcome = Outcome([r for r, p in found if p.status == "complete"])
        for run, state in found:
            if state.status == "corrupt":
                self.outcome.refused[run.id] = show.corrupt(run, state)
            elif state.status != "complete" and run.obstacle:
                self.outcome.refused[run.id] = str(run.obstacle)
        self.pending = [r for r, p in found if p.status != "complete" and r.id not in self.outcome.refused]
        self.held: dict[str, tuple[Run, float]] = {}  # by another process, and when to look again
        self.warm = {_kit(r) for r, p in found if p.updates}

    def finish(self) -> Outcome:
        for run in self.runs:
            note(run)
        self.view.begin(done=len(self.outcome.complete), bad=len(self.outcome.refused))
        with interrupts() as received:
            while self.pending or self.held or self.pool.workers:
                if not received:
                    self._fill()
                elif self.pool.stop(len(received)):
                    break
                for worker in self.pool.ended(0.5):
                    self._ended(worker)
                self._look_again()
                self.view.draw(self.pool.workers, self.pending, len(self.held))
        self.outcome.interrupted = bool(received)
        self.view.end()
        return self.outcome

    def _fill(self) -> None:
        while self.pool.has_room and self.pending:
            run = self._choose()
            self.pending.remove(run)
            if run.progress().status == "complete":
                self._completed_elsewhere(run)
            else:
                self.view.started(self.pool.start(run))

    def _choose(self) -> Run:
        """The next run, but not one that would only wait for another's warm start, if there is a choice."""
        warming = {_kit(w.run) for w in self.pool.workers} - self.warm
        return next((r for r in self.pending if _kit(r) not in warming), self.pending[0])

    def _ended(self, worker: Worker) -> None:
        run, code = worker.run, worker.exit_code
        self.warm.add(_kit(run))
        if code == BUSY:
            self.held[run.id] = run, time.monotonic() + LOOK_AGAIN
        elif code == DONE and run.progress().status == "complete":
            self.outcome.complete.append(run)
            self.view.completed(worker)
        elif worker.stops:
            self.view.stopped(worker)
        else:
            self.outcome.failed[run.id] = explain(code)
            self.view.failed(worker, explain(code))

    def _look_again(self) -> None:
        for run, when in list(self.held.values()):
            if run.progress().status == "complete":
                self._completed_elsewhere(run)
            elif time.monotonic() >= when:
                self.pending.append(run)  # whoever held it may be dead
            else:
                continue
            del self.held[run.id]

    def _completed_elsewhere(self, run: Run) -> None:
        self.outcome.complete.append(run)
        self.outcome.elsewhere.append(run)


def _kit(run: Run) -> str:
    """What a warm start is shared by."""
    c = run.config
    return repr((c.env, c.agent, c.policy, c.backend, c.rollout.train_tasks, c.evaluation))


@contextmanager
def interrupts():
    """Ctrl-C and SIGTERM as a list that grows."""
    received: list[int] = []
    before = {s: signal.signal(s, lambda number, _: received.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
