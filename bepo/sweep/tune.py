"""Optuna studies on the same runs and workers as grids: every trial is a few training seeds of one setting.

Hydra's own Optuna sweeper understands the same files (``python -m bepo.train -cd experiments -cn tune_...``), but it
cannot go on with a trial that was killed, share seeds among workers, or prune.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from filelock import FileLock, Timeout
from omegaconf import OmegaConf
from optuna.trial import TrialState

from bepo import objective, record
from bepo.sweep import plan
from bepo.sweep.execute import LOOK_AGAIN, interrupts
from bepo.sweep.plan import Run, note
from bepo.sweep.pool import BUSY, DONE, Pool, Worker, explain
from bepo.sweep.show import View
from bepo.sweep.trials import load, space_of, standing, wanted, words


@dataclass
class Attempt:
    """A trial at work in this process; the lock says so to others, and dies with the process."""

    trial: optuna.Trial
    lock: FileLock
    label: str
    runs: list[Run]  # one a training seed
    pending: list[Run]
    reported: set[int]
    resume_at: float = 0.0
    failed: str = ""
    pruned: bool = False


@dataclass
class Outcome:
    failed: list[str] = field(default_factory=list)
    interrupted: bool = False


class Tuning:
    """Asks for trials until the study has as many as its file says, counting those of every process."""

    def __init__(self, study: plan.Study, pool: Pool, view: View) -> None:
        self.study, self.pool, self.view = study, pool, view
        self.space, self.fixed = space_of(study)
        self.settings = OmegaConf.to_object(study.config.study)
        self.optuna = load(study)
        self.n_trials = wanted(study, self.optuna)
        self.folder = Path(study.config.results) / "studies" / study.name / study.config.scale / "trials"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.attempts: list[Attempt] = []
        self.outcome = Outcome()

    def finish(self) -> Outcome:
        with interrupts() as received:
            while True:
                if received:
                    self.pool.stop(len(received))
                else:
                    self._fill()
                elsewhere = self._elsewhere()
                if not self.pool.workers and (received or (not self.attempts and not elsewhere)):
                    break
                for worker in self.pool.ended(0.5):
                    self._ended(worker)
                for attempt in list(self.attempts):
                    self._look_at(attempt)
                self.view.draw(self.pool.workers, [r for a in self.attempts for r in a.pending], elsewhere)
        for attempt in self.attempts:
            attempt.lock.release()  # the trial stays as it is: whoever comes next goes on with it
        self.outcome.interrupted = bool(received)
        self.view.end()
        self.view.log(standing(self.study, self.optuna))
        return self.outcome

    # --- trials --------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        while self.pool.has_room:
            ready = [a for a in self.attempts if a.pending and a.resume_at <= time.monotonic()]
            if not ready and (attempt := self._next()):
                self.attempts.append(attempt)
                ready = [attempt]
            if not ready:
                return
            run = ready[0].pending.pop(0)
            note(run)
            if run.progress().status != "complete":
                self.view.started(self.pool.start(run))

    def _next(self) -> Attempt | None:
        """A trial that nobody works on any more, or a new one, or None."""
        with FileLock(self.folder / "ask.lock"):
            for left in self.optuna.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
                if lock := self._own(left.number):
                    return self._attempt(optuna.Trial(self.optuna, left._trial_id), lock, set(left.intermediate_values))
            if len(self.optuna.get_trials(deepcopy=False)) >= self.n_trials:
                return None
            trial = self.optuna.ask()
            return self._attempt(trial, self._own(trial.number), set())

    def _elsewhere(self) -> int:
        """Trials at work in other processes: should one of them die, its trial is gone on with here."""
        return len(self.optuna.get_trials(deepcopy=False, states=[TrialState.RUNNING])) - len(self.attempts)

    def _own(self, number: int) -> FileLock | None:
        lock = FileLock(self.folder / f"{number}.lock", timeout=0, is_singleton=True)
        if any(a.trial.number == number for a in self.attempts):
            return None
        try:
            lock.acquire()
        except Timeout:
            return None
        return lock

    def _attempt(self, trial: optuna.Trial, lock: FileLock, reported: set[int]) -> Attempt:
        for name, distribution in self.space.items():
            trial._suggest(name, distribution)  # an earlier answer is repeated
        chosen = [f"{name}={value}" for name, value in trial.params.items()]
        cells = [
            plan.Cell(
                self.study.name, [*self.fixed, *chosen, f"seed={seed}"], [f"trial={trial.number}", f"seed={seed}"]
            )
            for seed in self.settings["seeds"]
        ]
        runs = plan.runs_of(cells)
        trial.set_user_attr("runs", [run.id for run in runs])
        label = f"trial {trial.number}"
        if not reported:
            self.view.log(f"{label}: {words(trial.params)}")
        return Attempt(trial, lock, label, runs, list(runs), reported)

    # --- ends ----------------------------------------------------------------------------------------------

    def _ended(self, worker: Worker) -> None:
        (attempt,) = [a for a in self.attempts if worker.run in a.runs]
        if worker.exit_code == BUSY:
            attempt.pending.append(worker.run)
            attempt.resume_at = time.monotonic() + LOOK_AGAIN
        elif worker.exit_code == DONE:
            self.view.completed(worker)
        elif worker.stops:
            self.view.stopped(worker)
        else:
            attempt.failed = f"{worker.run.label}: {explain(worker.exit_code)}  ({worker.run.log})"
            self.view.failed(worker, explain(worker.exit_code))

    def _look_at(self, attempt: Attempt) -> None:
        """Tell Optuna what became of a trial, once that is known; stop one that is hopeless."""
        mine = [w for w in self.pool.workers if w.run in attempt.runs]
        if attempt.failed:
            self._close(attempt, mine, TrialState.FAIL)
        elif all(run.progress().status == "complete" for run in attempt.runs):
            found = [record.read(run.folder.path) for run in attempt.runs]
            values = objective.values(self.settings["objectives"], found)
            self._close(attempt, mine, TrialState.COMPLETE, values)
        elif attempt.pruned or self._hopeless(attempt):
            attempt.pruned = True
            self._close(attempt, mine, TrialState.PRUNED)

    def _close(
        self, attempt: Attempt, workers: Sequence[Worker], state: TrialState, values: list | None = None
    ) -> None:
        attempt.pending.clear()
        for worker in workers:
            if not worker.stops:
                worker.stop()
        if workers:
            return
        self.optuna.tell(attempt.trial, values, state=state)
        self.attempts.remove(attempt)
        attempt.lock.release()
        said = ", ".join(f"{n} {v:.3f}" for n, v in zip(self.settings["objectives"], values or []))
        self.view.log(f"{attempt.label}: {said or state.name.lower()}")
        if state == TrialState.FAIL:
            self.outcome.failed.append(attempt.failed)

    def _hopeless(self, attempt: Attempt) -> bool:
        """Seeds count one after the other: the value at a step is the mean of the seeds that got so far."""
        if len(self.settings["objectives"]) > 1 or "pruner" not in self.settings:
            return False
        finals: list[float] = []
        news = False
        for run in attempt.runs:
            rows = run.folder.rows("metrics")
            curve = [r["eval/validation_success"] for r in rows if "eval/validation_success" in r]
            passes = run.config.updates // run.config.evaluation.every if run.config.evaluation.every else 0
            for i, value in enumerate(curve):
                step = len(finals) * passes + i
                if step not in attempt.reported:
                    attempt.trial.report((sum(finals) + value) / (len(finals) + 1), step)
                    attempt.reported.add(step)
                    news = True
            if len(curve) < passes or not curve:
                break
            finals.append(curve[-1])
        return news and attempt.trial.should_prune()
