"""The output of a sweep: the plan, live progress, and the summary."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from bepo.core.errors import say
from bepo.runs.metrics import seconds_of_updates
from bepo.store.files import Corrupt
from bepo.store.runs import Progress
from bepo.sweep.estimate import Throughput, TimeEstimate
from bepo.sweep.outcome import GridOutcome
from bepo.sweep.plan import PlannedRun, same_trainings
from bepo.sweep.pool import Worker, explain_exit

_TOTALS_SECONDS = 60.0  # between two lines of totals without a terminal


def format_plan(
    runs: Sequence[PlannedRun], states: Mapping[str, Progress], throughput: Throughput, jobs: int, cells: bool
) -> str:
    """Return a table with a row for each study, the remaining work and its cost, and problems.

    ``states`` holds the progress of every run by run ID. ``cells`` adds a row for each cell above the table.
    """
    rows = [_cell_row(run, states[run.id]) for run in runs] + [""] if cells else []
    unfinished = [run for run in runs if states[run.id].status in ("partial", "missing")]
    n_cells = sum(len(run.cells) for run in runs)
    lines = [*rows, *_study_rows(runs, states)]
    are = "1 cell is" if n_cells == 1 else f"{n_cells} cells are"
    shared = f"{len(runs)} run{'s' * (len(runs) != 1)}{' (a shared run is trained once)' * (n_cells > len(runs))}"
    lines.append(f"\n{are} {shared}; {len(unfinished)} to do")
    if unfinished:
        lines.append(format_time([throughput.estimate(run) for run in unfinished], jobs))
    return "\n".join([*lines, *_problems(runs, states, throughput, unfinished)])


def _cell_row(run: PlannedRun, state: Progress) -> str:
    status = state.status if state.status != "partial" else f"partial {state.updates}/{run.config.updates}"
    others = [s for s in run.studies if s != run.cells[0].study]
    return f"{run.id}  {status:14s} {run.label}" + (f"  (also {', '.join(others)})" if others else "")


def _study_rows(runs: Sequence[PlannedRun], states: Mapping[str, Progress]) -> list[str]:
    columns = ["complete", "partial", "missing"]
    columns += ["corrupt"] if any(state.status == "corrupt" for state in states.values()) else []
    rows = [f"{'study':24s}{'cells':>6s}{''.join(f'{c:>10s}' for c in columns)}{'shared':>8s}"]
    for study in dict.fromkeys(s for run in runs for s in run.studies):
        of_study = [run for run in runs if study in run.studies]
        counts = [sum(states[run.id].status == column for run in of_study) for column in columns]
        shared = sum(len(run.studies) > 1 for run in of_study)
        rows.append(f"{study:24s}{len(of_study):6d}{''.join(f'{n:10d}' for n in counts)}{shared or '-':>8}")
    return rows


def _problems(
    runs: Sequence[PlannedRun],
    states: Mapping[str, Progress],
    throughput: Throughput,
    unfinished: Sequence[PlannedRun],
) -> list[str]:
    corrupt = [run for run in runs if states[run.id].status == "corrupt"]
    lines = [f"CORRUPT {run.label}: {format_corrupt(run, states[run.id])}" for run in corrupt]
    elsewhere = [problem for identifier, problem in throughput.corrupt.items() if identifier not in states]
    lines += [f"CORRUPT, not in these studies: {problem}" for problem in elsewhere]
    lines += [f"NO EFFECT  {line}" for line in same_trainings(runs)]
    obstacles = dict.fromkeys(str(run.obstacle) for run in unfinished if run.obstacle)
    return lines + [f"not on this machine: {obstacle}" for obstacle in obstacles]


def format_corrupt(run: PlannedRun, state: Progress) -> str:
    """Return the problem of a corrupt run, and how to train it again."""
    return f"{state.problem}; {run.folder.advice}"


def format_time(estimates: Sequence[TimeEstimate], jobs: int) -> str:
    """Return the time that runs will take, ``jobs`` at a time, given an estimate for each."""
    total = sum(e.seconds for e in estimates)
    measured = sum(e.measured for e in estimates)
    basis = (
        f"{measured} of {len(estimates)} from earlier updates" if measured else "from constants, nothing measured yet"
    )
    gpu_hours = sum(e.seconds * e.gpus for e in estimates) / 3600
    gpus = f", {gpu_hours:.0f} GPU-hours" if gpu_hours else ""
    return f"about {format_duration(total / jobs)} with {jobs} at a time{gpus} ({basis})"


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units: hours and minutes, minutes and seconds, or seconds."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def format_summary(outcome: GridOutcome, runs: Sequence[PlannedRun], seconds: float) -> str:
    """Return the number of complete runs after ``seconds``, and the failed runs with reasons and logs."""
    elsewhere = f" ({len(outcome.elsewhere)} of them by other processes)" if outcome.elsewhere else ""
    done = f"{len(outcome.complete)} of {len(runs)} runs complete{elsewhere}, {format_duration(seconds)}"
    return "\n".join([done, *failures(outcome, runs)])


def failures(outcome: GridOutcome, runs: Sequence[PlannedRun]) -> list[str]:
    """Return lines about the runs that failed or were not started, with reasons and logs; empty if all are complete."""
    lines = []
    for run in runs:
        if run.id in outcome.failed:
            lines.append(f"FAILED  {run.label}: {outcome.failed[run.id]}\n        log {run.log}: {_last_line(run)}")
    for reason in dict.fromkeys(outcome.refused.values()):
        refused = [f"        {run.label}" for run in runs if outcome.refused.get(run.id) == reason]
        lines += [f"FAILED  {reason}", *refused]
    if outcome.interrupted:
        lines.append("interrupted; the same command continues from here")
    elif outcome.failed:
        lines.append("the same command tries the failed ones again")
    return lines


def _last_line(run: PlannedRun) -> str:
    lines = run.log.read_text(errors="replace", encoding="utf-8").strip().splitlines() if run.log.exists() else []
    return lines[-1] if lines else "(empty)"


class View:
    """Live progress: a block of lines that is redrawn on a terminal, otherwise a line per event."""

    def __init__(
        self, throughput: Throughput, jobs: int, total: int, out: TextIO | None = None, hides_test: bool = False
    ) -> None:
        """``hides_test``: whether success on test tasks is not shown, as within a search."""
        self.throughput, self.jobs, self.total, self.hides_test = throughput, jobs, total, hides_test
        self.out = out or sys.stdout
        self.is_live = self.out.isatty()
        self.n_complete = self.n_failed = 0
        self.n_drawn = 0  # lines of the block on the terminal
        self._made: dict[str, int] = {}  # updates of a run before its worker started, by run ID
        self.began = self.last_total = time.monotonic()

    def begin(self, n_complete: int, n_failed: int) -> None:
        """Set the numbers of runs that are complete already and of those that cannot be started."""
        self.n_complete, self.n_failed = n_complete, n_failed

    def started(self, worker: Worker) -> None:
        """Show that a worker started."""
        self._made[worker.run.id] = worker.run.progress(hashed=False).updates
        if not self.is_live:
            self.log(f"start   {worker.run.label}")

    def completed(self, worker: Worker) -> None:
        """Show the success of a completed run, and use its time in later estimates."""
        self.n_complete += 1
        self.throughput.add(worker.run.folder.path)
        said = "" if self.hides_test else f"  success {worker.run.result()['success']:.3f}"
        self.log(f"done    {worker.run.label}{said}  ({_age(worker)})")

    def failed(self, worker: Worker) -> None:
        """Show why a worker failed."""
        self.n_failed += 1
        self.log(f"FAILED  {worker.run.label}: {explain_exit(worker.exit_code)}  ({worker.run.log})")

    def stopped(self, worker: Worker) -> None:
        """Show the last update of a worker that was asked to stop."""
        self.log(f"stopped {worker.run.label}  update {worker.run.progress().updates}/{worker.run.config.updates}")

    def draw(self, workers: Sequence[Worker], pending: Sequence[PlannedRun], n_elsewhere: int) -> None:
        """Draw the block, or a line of totals once a minute. ``n_elsewhere``: runs that other processes train."""
        now = time.monotonic()
        if self.is_live:
            self._erase()
            width = shutil.get_terminal_size().columns - 1
            lines = [*self.lines_of(workers), self._total_line(workers, pending, n_elsewhere)]
            say("".join(line[:width] + "\n" for line in lines), end="", file=self.out)
            self.n_drawn = len(lines)
        elif now - self.last_total > _TOTALS_SECONDS:
            self.log(self._total_line(workers, pending, n_elsewhere))
            self.last_total = now

    def lines_of(self, workers: Sequence[Worker]) -> list[str]:
        """Return the lines of the block above the totals."""
        return list(map(_worker_line, workers))

    def end(self) -> None:
        """Remove the block from the terminal."""
        self._erase()

    def log(self, text: str) -> None:
        """Print a line that stays."""
        self._erase()
        say(text, file=self.out)

    def note(self, text: str) -> None:
        """Print a line about a trial of a search, or about the search."""
        self.log(text)

    def _total_line(self, workers: Sequence[Worker], pending: Sequence[PlannedRun], n_elsewhere: int) -> str:
        unfinished = [*pending, *(worker.run for worker in workers)]
        seconds = sum(self.throughput.estimate(run).seconds for run in unfinished) * self._pace(workers) / self.jobs
        parts = [f"{self.n_complete} of {self.total} runs complete"]
        parts += [f"{self.n_failed} failed"] if self.n_failed else []
        parts += [f"{n_elsewhere} at work elsewhere"] if n_elsewhere else []
        elapsed = format_duration(time.monotonic() - self.began)
        left = f"about {format_duration(seconds)} left" if round(seconds) else "the last evaluations are left"
        return f"total   {', '.join(parts)}; {elapsed}, {left}"

    def _pace(self, workers: Sequence[Worker]) -> float:
        """Return the time of the running workers' updates as a multiple of the estimate; 1 before the first.

        Estimates are of CPU seconds, or constants: a busy or slow machine needs longer.
        """
        took = expected = 0.0
        for worker in workers:
            whole = self.throughput.estimate(worker.run, whole=True).seconds
            with suppress(Corrupt):  # the run fails with this error itself
                made = worker.run.folder.rows("metrics")[self._made.get(worker.run.id, 0) :]
                took += seconds_of_updates(made)
                expected += whole * len(made) / max(worker.run.config.updates, 1)
        return took / expected if expected else 1.0

    def _erase(self) -> None:
        if self.n_drawn:
            say(f"\x1b[{self.n_drawn}F\x1b[J", end="", file=self.out)
            self.n_drawn = 0


class Brief(View):
    """One line that is redrawn: how many runs are complete and how many failed. Without a terminal, one a minute.

    Only failures leave a line of their own. For smoke runs, whose success says nothing.
    """

    def started(self, worker: Worker) -> None:
        """Show nothing."""
        self._made[worker.run.id] = worker.run.progress(hashed=False).updates

    def completed(self, worker: Worker) -> None:
        """Count a completed run."""
        self.n_complete += 1
        self.throughput.add(worker.run.folder.path)

    def lines_of(self, workers: Sequence[Worker]) -> list[str]:
        """Return nothing: the totals are the only line."""
        return []

    def note(self, text: str) -> None:
        """Show nothing."""


def _worker_line(worker: Worker) -> str:
    state = worker.run.progress()
    if not state.last:
        status = "ending" if state.updates else "starting"
    else:
        success = state.last.get("eval/validation_success", state.last["train/success"])
        status = f"update {state.updates}/{worker.run.config.updates}  success {success:.2f}"
    return f"running {worker.run.label}  {status}  {_age(worker)}"


def _age(worker: Worker) -> str:
    return format_duration(time.monotonic() - worker.started)
