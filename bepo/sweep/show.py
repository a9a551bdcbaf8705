"""What a sweep shows: the plan, a line for each running cell and one for all, and the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from bepo.record import Progress
from bepo.sweep.estimate import Estimate, Throughput
from bepo.sweep.plan import Run
from bepo.sweep.pool import Worker

if TYPE_CHECKING:
    from bepo.sweep.execute import Outcome

_QUIET = 60.0  # seconds between two lines of totals where there is no terminal


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"


def plan(runs: Sequence[Run], states: dict[str, Progress], throughput: Throughput, jobs: int, cells: bool) -> str:
    """A row a study, or a row a cell as well; then what is shared, what is left to do, and what is in its way."""
    lines = [_cell_row(run, states[run.id]) for run in runs] + [""] if cells else []
    columns = ["complete", "partial", "missing"]
    columns += ["corrupt"] if any(state.status == "corrupt" for state in states.values()) else []
    lines.append(f"{'study':24s}{'cells':>6s}{''.join(f'{c:>10s}' for c in columns)}{'shared':>8s}")
    for study in dict.fromkeys(s for run in runs for s in run.studies):
        mine = [run for run in runs if study in run.studies]
        counts = [sum(states[r.id].status == c for r in mine) for c in columns]
        shared = sum(len(r.studies) > 1 for r in mine)
        lines.append(f"{study:24s}{len(mine):6d}{''.join(f'{n:10d}' for n in counts)}{shared or '-':>8}")
    n_cells = sum(len(run.cells) for run in runs)
    left = [run for run in runs if states[run.id].status in ("partial", "missing")]
    lines.append(f"\n{n_cells} cells are {len(runs)} runs (a shared run is trained once); {len(left)} to do")
    if left:
        lines.append(time_left([throughput.of(run) for run in left], jobs))
    lines += [f"CORRUPT {r.label}: {corrupt(r, states[r.id])}" for r in runs if states[r.id].status == "corrupt"]
    others = {name: problem for name, problem in throughput.corrupt.items() if name not in states}
    lines += [f"CORRUPT and no cell of these studies: {problem}" for problem in others.values()]
    lines += [f"not on this machine: {problem}" for problem in {str(r.obstacle): 0 for r in left if r.obstacle}]
    return "\n".join(lines)


def corrupt(run: Run, state: Progress) -> str:
    """What is wrong with a corrupt record, and what to do: nothing that was recorded is removed unasked."""
    return f"{state.problem}; to train it again: python -m analysis runs --gc {run.id} --results {run.config.results}"


def _cell_row(run: Run, state: Progress) -> str:
    where = state.status if state.status != "partial" else f"partial {state.updates}/{run.config.updates}"
    also = [s for s in run.studies if s != run.cells[0].study]
    return f"{run.id}  {where:14s} {run.label}" + (f"  (also {', '.join(also)})" if also else "")


def time_left(found: Sequence[Estimate], jobs: int) -> str:
    """Of runs, one estimate each."""
    total = sum(e.seconds for e in found)
    measured = sum(e.measured for e in found)
    basis = f"{measured} of {len(found)} by earlier records" if measured else "by stated constants, none measured yet"
    gpu_hours = sum(e.seconds * e.gpus for e in found) / 3600
    gpus = f", {gpu_hours:.0f} GPU-hours" if gpu_hours else ""
    return f"about {duration(total / jobs)} with {jobs} at a time{gpus} ({basis})"


class View:
    """Live progress: on a terminal a block of lines that is redrawn, elsewhere a line when something happens."""

    def __init__(self, throughput: Throughput, jobs: int, total: int, out: TextIO | None = None) -> None:
        self.throughput, self.jobs, self.total = throughput, jobs, total
        self.out = out or sys.stdout
        self.live = self.out.isatty()
        self.done = self.bad = self.drawn = 0
        self.began = self.last = time.monotonic()

    def begin(self, done: int, bad: int) -> None:
        self.done, self.bad = done, bad

    def started(self, worker: Worker) -> None:
        if not self.live:
            self.log(f"start   {worker.run.label}")

    def completed(self, worker: Worker) -> None:
        self.done += 1
        self.throughput.add(worker.run.folder.path)
        success = worker.run.result()["success"]
        self.log(f"done    {worker.run.label}  success {success:.3f}  ({_age(worker)})")

    def failed(self, worker: Worker, why: str) -> None:
        self.bad += 1
        self.log(f"FAILED  {worker.run.label}: {why}  ({worker.run.log})")

    def stopped(self, worker: Worker) -> None:
        self.log(f"stopped {worker.run.label}  update {worker.run.progress().updates}/{worker.run.config.updates}")

    def draw(self, workers: Sequence[Worker], pending: Sequence[Run], elsewhere: int) -> None:
        now = time.monotonic()
        if self.live:
            self._erase()
            width = shutil.get_terminal_size().columns - 1
            lines = [*map(_running, workers), self._total(workers, pending, elsewhere)]
            self.out.write("".join(line[:width] + "\n" for line in lines))
            self.out.flush()
            self.drawn = len(lines)
        elif now - self.last > _QUIET:
            self.log(self._total(workers, pending, elsewhere))
            self.last = now

    def end(self) -> None:
        self._erase()

    def _total(self, workers: Sequence[Worker], pending: Sequence[Run], elsewhere: int) -> str:
        left = sum(self.throughput.of(r).seconds for r in [*pending, *(w.run for w in workers)]) / self.jobs
        parts = [f"{self.done} of {self.total} runs complete"]
        parts += [f"{self.bad} failed"] if self.bad else []
        parts += [f"{elsewhere} at work elsewhere"] if elsewhere else []
        return f"total   {', '.join(parts)}; {duration(time.monotonic() - self.began)}, about {duration(left)} left"

    def log(self, text: str) -> None:
        self._erase()
        print(text, file=self.out, flush=True)

    def _erase(self) -> None:
        if self.drawn:
            self.out.write(f"\x1b[{self.drawn}F\x1b[J")
            self.drawn = 0


def _running(worker: Worker) -> str:
    state = worker.run.progress()
    if not state.updates:
        where = "starting"
    else:
        success = state.last.get("eval/validation_success", state.last["train/success"])
        where = f"update {state.updates}/{worker.run.config.updates}  success {success:.2f}"
    return f"running {worker.run.label}  {where}  {_age(worker)}"


def _age(worker: Worker) -> str:
    return duration(time.monotonic() - worker.started)


def summary(outcome: Outcome, runs: Sequence[Run], seconds: float) -> str:
    elsewhere = f" ({len(outcome.elsewhere)} of them by other processes)" if outcome.elsewhere else ""
    lines = [f"{len(outcome.complete)} of {len(runs)} runs complete{elsewhere}, {duration(seconds)}"]
    for run in runs:
        if run.id in outcome.failed:
            lines.append(f"FAILED  {run.label}: {outcome.failed[run.id]}\n        log {run.log}: {_last_line(run)}")
    for why in dict.fromkeys(outcome.refused.values()):
        refused = [f"        {run.label}" for run in runs if outcome.refused.get(run.id) == why]
        lines += [f"FAILED  {why}", *refused]
    if outcome.interrupted:
        lines.append("interrupted; the same command goes on from here")
    elif outcome.failed:
        lines.append("the same command tries the failed ones again")
    return "\n".join(lines)


def _last_line(run: Run) -> str:
    lines = run.log.read_text(errors="replace").strip().splitlines() if run.log.exists() else []
    return lines[-1] if lines else "(empty)"
