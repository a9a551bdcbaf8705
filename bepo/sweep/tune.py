"""Optuna studies with the same runs and workers as grids. Every trial is a few training seeds of one setting.

Hydra's own Optuna sweeper reads the same files (``python -m bepo.train -cd experiments -cn tune_...``). It cannot
continue a killed trial, distribute seeds over workers, or prune.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from bepo.core.errors import UserError, told
from bepo.runs.objectives import metric_for_pruner
from bepo.store.locks import FileLock, acquire, locked, try_acquire
from bepo.sweep.attempt import Attempt
from bepo.sweep.outcome import TuningOutcome
from bepo.sweep.plan import PlannedRun, note_cells, plan_cells
from bepo.sweep.pool import Pool
from bepo.sweep.samplers import sampler_and_pruner
from bepo.sweep.schedule import Scheduler
from bepo.sweep.show import View
from bepo.sweep.space import conditional_space, search_space, suggest, values_of
from bepo.sweep.storage import UNREACHABLE
from bepo.sweep.studies import Cell, PlannedStudy
from bepo.sweep.trials import (
    REFUSED,
    RETRIES,
    RUNS,
    STOPPED,
    counted_trials,
    format_params,
    format_status,
    format_values,
    open_study,
    retried_trials,
    target_of,
)


class Tuning(Scheduler):
    """Runs the trials of an Optuna study until all processes together have made the target number."""

    def __init__(self, planned: PlannedStudy, pool: Pool, view: View) -> None:
        super().__init__(pool, view)
        self.planned = planned
        self.objectives = planned.objectives
        has_pruner = "pruner" in planned.config.study and len(self.objectives) == 1
        self.metric = metric_for_pruner(self.objectives[0]) if has_pruner else None
        self.is_seeded = planned.config.hydra.sweeper.sampler.get("seed") is not None
        self.space, self.fixed = search_space(planned.sweep)
        self.conditional = conditional_space(planned.config)
        self.study = open_study(planned)
        self.target = target_of(planned, self.study)
        self.folder = Path(planned.config.results) / "studies" / planned.name / planned.config.tier / "trials"
        self.attempts: list[Attempt] = []
        self.outcome = TuningOutcome()
        self.proposes = True  # whether the sampler can be asked for settings
        if STOPPED in self.study.user_attrs:
            with locked(self.folder / "ask.lock"):
                self._queue([trial for trial in counted_trials(self.study) if trial.state == TrialState.FAIL])

    def finish(self) -> TuningOutcome:
        """Run the missing trials, and return the outcome. After Ctrl-C, end the workers first.

        Raises ``UserError`` if the storage of the trials cannot be used any more, after the workers have stopped.
        """
        try:
            self.outcome.interrupted = self.work()
        except UNREACHABLE as error:
            raise UserError(f"its trials cannot be stored: {told(error)}") from error
        for attempt in self.attempts:
            attempt.lock.release()  # the next process retries the abandoned trial
        if (refused := [trial.user_attrs.get(REFUSED) for trial in counted_trials(self.study)]) and all(refused):
            self.outcome.failed.append(f"no trial could be trained; the last error: {refused[-1]}")
        self.view.end()
        self.view.note(format_status(self.planned, self.study))
        return self.outcome

    def n_elsewhere(self) -> int:
        """Return the number of runs, and of trials without one, that other processes work on."""
        return len(self._trials(TrialState.RUNNING, TrialState.WAITING)) - len(self.attempts) + len(self.busy)

    def is_done(self) -> bool:
        """Return whether no trial is left, here or elsewhere, once no worker is at work."""
        return not self.attempts and super().is_done()

    def next_run(self) -> PlannedRun | None:
        """Return the next run of the trials at work, or else the first one of another trial."""
        if not self.pending and (attempt := self._next_attempt()):
            self.attempts.append(attempt)
            self.pending += attempt.runs
        if not self.pending:
            return None
        run = self.pending.pop(0)
        note_cells(run)
        return run

    def watch(self) -> None:
        """Report to the pruner, and end the trials whose runs have ended."""
        for attempt in list(self.attempts):
            self._update(attempt)

    # --- trials --------------------------------------------------------------------------------------------

    def _next_attempt(self) -> Attempt | None:
        """Return the next trial: an abandoned one, or else a new one; None if the study has its target number.

        A trial whose settings contradict each other is pruned and replaced. One that cannot be begun has failed.
        """
        while True:
            with locked(self.folder / "ask.lock"):
                self._queue_abandoned()
                if not self._trials(TrialState.WAITING) and self._is_whole():
                    return None
                if self.is_seeded:
                    self.study.sampler, _ = sampler_and_pruner(self.planned, len(self._trials()))
                if (trial := self._ask()) is None:
                    return None
                lock = acquire(self._lock_file(trial.number))
            overrides = [*self.fixed]
            try:
                suggest(trial, self.conditional, self.planned.config, values_of(self.fixed))
                overrides += [f"{name}={value}" for name, value in trial.params.items()]
                return self._attempt(trial, lock, overrides)
            except UserError as error:
                problem = str(error).removeprefix(" ".join([self.planned.name, *overrides]) + ": ")
                trial.set_user_attr(REFUSED, problem)
                self._tell(trial, TrialState.PRUNED)
                self.view.note(f"trial {trial.number}: pruned, {problem} ({format_params(trial.params)})")
            except UNREACHABLE:
                raise
            except (Exception, SystemExit) as error:  # any type: the code of a sampler, of conditions or of a plug-in
                self._tell(trial, TrialState.FAIL)
                self._note_failure(f"trial {trial.number}: {told(error)} ({format_params(trial.params)})")
            lock.release()

    def _is_whole(self) -> bool:
        """Return whether the study needs no new trial, or can have none."""
        stopped = not self.proposes or STOPPED in self.study.user_attrs
        return stopped or len(counted_trials(self.study)) >= self.target

    def _ask(self) -> optuna.Trial | None:
        """Return a new trial; None if the sampler fails. Then it is not asked again, and the other trials go on."""
        begun = len(self._trials())
        try:
            return self.study.ask(self.space)
        except UNREACHABLE:
            raise
        except (Exception, SystemExit) as error:  # any type: the code of a sampler
            for trial in self._trials(TrialState.RUNNING):
                if trial.number >= begun:
                    self._tell(trial.number, TrialState.FAIL)
            self.proposes = False
            sampler = type(self.study.sampler).__name__
            self._note_failure(f"hydra.sweeper.sampler: {sampler} proposes no settings, {told(error)}")
            return None

    def _tell(self, trial: optuna.Trial | int, state: TrialState, values: Sequence[float] | None = None) -> None:
        """End a trial in the study. An error of the sampler is printed: Optuna has stored the trial then."""
        number = trial if isinstance(trial, int) else trial.number
        try:
            self.study.tell(trial, values, state=state)
        except (Exception, SystemExit) as error:  # any type: the code of a sampler
            if not self._trials()[number].state.is_finished():
                raise
            self.view.note(f"trial {number}: is stored; its sampler failed, {told(error)}")

    def _note_failure(self, problem: str) -> None:
        self.outcome.failed.append(f"{self.planned.name}, {problem}")
        self.view.note(f"failed: {problem}")

    def _queue_abandoned(self) -> None:
        """Queue the settings of every trial whose process has died, and mark that trial as failed.

        If this process is killed in between, the next process finds the trial queued and only marks it.
        """
        running = self._trials(TrialState.RUNNING)
        locks = {trial.number: lock for trial in running if (lock := self._try_lock(trial.number))}
        for trial in self._trials(TrialState.RUNNING):  # read again: a trial may have ended before it was locked
            if trial.number in locks:
                self._queue([trial])
                self._tell(trial.number, TrialState.FAIL)
        for lock in locks.values():
            lock.release()

    def _queue(self, trials: Sequence[FrozenTrial]) -> None:
        """Queue the settings of trials that nobody retries yet."""
        for trial in trials:
            if trial.number not in retried_trials(self.study):
                self.study.enqueue_trial(trial.params, user_attrs={RETRIES: trial.number})

    def _attempt(self, trial: optuna.Trial, lock: FileLock, overrides: Sequence[str]) -> Attempt:
        cells = [
            Cell(self.planned.name, [*overrides, f"seed={seed}"], [f"trial={trial.number}", f"seed={seed}"])
            for seed in self.planned.seeds
        ]
        runs = plan_cells(cells)
        trial.set_user_attr(RUNS, [run.id for run in runs])
        attempt = Attempt(trial, lock, runs)
        retries = f" (retries trial {trial.user_attrs[RETRIES]})" if RETRIES in trial.user_attrs else ""
        self.view.note(f"{attempt.label}{retries}: {format_params(trial.params)}")
        return attempt

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=states or None)

    def _try_lock(self, number: int) -> FileLock | None:
        """Lock a trial; return None if any process, also this one, is working on it."""
        return try_acquire(self._lock_file(number))

    def _lock_file(self, number: int) -> Path:
        return self.folder / f"{self.study.study_name}.{number}.lock"

    # --- ends ----------------------------------------------------------------------------------------------

    def failed(self, run: PlannedRun, reason: str) -> None:
        """Note the failure of a trial's run."""
        (attempt,) = [a for a in self.attempts if run in a.runs]
        attempt.failure = f"{run.label}: {reason}  ({run.log})"

    def _update(self, attempt: Attempt) -> None:
        """Report new values to the pruner, prune a bad trial, and tell Optuna when a trial has ended."""
        values: list[float] = []
        try:
            if not attempt.failure:
                has_news = self.metric is not None and not attempt.is_pruned and attempt.report(self.metric)
                if attempt.is_complete:
                    values = attempt.values(self.objectives)
                elif has_news:
                    attempt.is_pruned = attempt.trial.should_prune()
        except UNREACHABLE:
            raise
        except (Exception, SystemExit) as error:  # any type: the code of an objective or of a pruner
            attempt.failure = f"{attempt.label}: {told(error)}"
        if attempt.failure:
            self._close(attempt, TrialState.FAIL)
        elif values:
            self._close(attempt, TrialState.COMPLETE, values)
        elif attempt.is_pruned:
            self._close(attempt, TrialState.PRUNED)

    def _close(self, attempt: Attempt, state: TrialState, values: Sequence[float] | None = None) -> None:
        """End a trial after its workers. The workers of a complete trial end by themselves, after their upload."""
        self.pending = [run for run in self.pending if run not in attempt.runs]
        self.busy = [entry for entry in self.busy if entry[0] not in attempt.runs]
        workers = [worker for worker in self.pool.workers if worker.run in attempt.runs]
        if state != TrialState.COMPLETE:
            for worker in workers:
                if not worker.stop_requests:
                    worker.stop()
        if workers:
            return
        self._tell(attempt.trial, state, values)
        self.attempts.remove(attempt)
        attempt.lock.release()
        if state == TrialState.FAIL:
            self._note_failure(attempt.failure)
        else:
            self.view.note(f"{attempt.label}: {format_values(self.objectives, values or []) or state.name.lower()}")
