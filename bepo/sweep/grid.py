"""Train the missing runs of grids, with one worker per free core."""

from __future__ import annotations

from collections.abc import Sequence

from bepo.sweep.outcome import GridOutcome
from bepo.sweep.plan import PlannedRun, note_cells
from bepo.sweep.pool import Pool
from bepo.sweep.schedule import Scheduler
from bepo.sweep.show import View, format_corrupt


class Grid(Scheduler):
    """Trains the runs of grids. Runs that another process is working on are tried again later."""

    def __init__(self, runs: Sequence[PlannedRun], pool: Pool, view: View) -> None:
        super().__init__(pool, view)
        self.runs, self.outcome = runs, GridOutcome()
        self.warm_starts: set[str] = set()  # keys of the existing warm starts
        for run in runs:
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
        self.outcome.interrupted = self.work()
        self.view.end()
        return self.outcome

    def next_run(self) -> PlannedRun | None:
        """Return the next run; avoid runs that would wait for a warm start that a worker is making."""
        unfinished = {_warm_start_key(worker.run) for worker in self.pool.workers} - self.warm_starts
        ready = (run for run in self.pending if _warm_start_key(run) not in unfinished)
        if chosen := next(ready, None) or next(iter(self.pending), None):
            self.pending.remove(chosen)
        return chosen

    def completed(self, run: PlannedRun, elsewhere: bool) -> None:
        """Note a run that is complete, with its warm start."""
        self.warm_starts.add(_warm_start_key(run))
        self.outcome.complete.append(run)
        self.outcome.elsewhere += [run] if elsewhere else []

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Note a run whose worker has failed. Others do not wait for its warm start any more."""
        self.warm_starts.add(_warm_start_key(run))
        self.outcome.failed[run.id] = reason


def _warm_start_key(run: PlannedRun) -> str:
    """Return a key that is equal for runs with the same warm start."""
    c = run.config
    return repr((c.env, c.agent, c.policy, c.backend, c.rollout.train_tasks, c.evaluation))
