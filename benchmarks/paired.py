"""``python -m benchmarks.paired REVISION --env ENV``: CPU seconds of a run in this tree and at another revision.

Both run at the same time, with one thread each and an empty cache, so that other load on the machine slows both. The
seconds before the first update (imports, task sets, warm start, first evaluation) and of the updates are shown
separately. Equal seeds may give different episodes at both revisions, and a warm start may stop at another check. If
factors are close, compare milliseconds per training transition, or several seeds. ``--sweep`` also trains the run of
this tree in a sweep's worker, after imports and with task sets, warm start and first evaluations made. Needs /proc
(Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bepo.runs.compose import config_of
from bepo.runs.config import identity_of
from bepo.store.run_files import read_run
from bepo.store.runs import run_id
from bepo.sweep.plan import PlannedRun
from bepo.sweep.pool import Pool
from bepo.sweep.studies import Cell

ROOT = Path(__file__).parent.parent
FITTED = {"policy.warm_start.seed": "9"}  # not a published warm start, so that both revisions fit theirs
OLD_NAMES = {"tier": "scale"}  # settings, and their names at revisions before issue 14 (CHANGELOG.md)


class Cost(NamedTuple):
    """The CPU seconds of a run, and the number of its training transitions."""

    before: float
    updates: float
    after: float
    transitions: int


class Run(ABC):
    """A training run in a separate process."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._clock: list[float] = []  # CPU seconds at which each update was found to be complete
        self._seconds = 0.0
        self.cost: Cost | None = None

    @property
    @abstractmethod
    def _pid(self) -> int: ...

    @abstractmethod
    def _ended(self) -> float | None:
        """Return the CPU seconds of the process if it has ended. Raises ``SystemExit`` if it failed."""

    def poll(self) -> bool:
        """Record the progress of the run, and return whether it is still running."""
        if self.cost is None:
            rows = self._rows()
            self._clock += [self._cpu_seconds()] * (len(rows) - len(self._clock))
            total = self._ended()
            if total is not None:
                self.cost = self._cost(total)
        return self.cost is None

    def _cost(self, total: float) -> Cost:
        n = [row.get("train/transitions", row.get("train/records", 0)) for row in self._rows()]
        # Assume that the first update costs as much as the mean of the others.
        updates = (self._clock[-1] - self._clock[0]) * sum(n) / max(sum(n[1:]), 1)
        after = total - self._clock[-1]
        return Cost(total - updates - after, updates, after, sum(n))

    def _rows(self) -> list[dict]:
        files = [*self.results.glob("runs/*/metrics.jsonl")]
        lines = files[0].read_text(encoding="utf-8").splitlines(keepends=True) if files else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _cpu_seconds(self) -> float:
        with suppress(FileNotFoundError):  # the process has just ended
            fields = Path(f"/proc/{self._pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            self._seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return self._seconds


class RunAlone(Run):
    """A run of the command ``bepo.train`` in a checkout, with an empty cache."""

    def __init__(self, checkout: Path, results: Path, settings: dict[str, str]) -> None:
        super().__init__(results)
        if not (checkout / "conf" / "tier").exists():
            settings = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
        overrides = [f"{name}={value}" for name, value in settings.items()]
        self._log = results.with_suffix(".log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bepo.train", *overrides, f"results={results}"],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    @property
    def _pid(self) -> int:
        return self._process.pid

    def _ended(self) -> float | None:
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid and (status or not self._clock):
            raise SystemExit(f"a run failed; see {self._log.name}")
        return usage.ru_utime + usage.ru_stime if pid else None


class RunOfSweep(Run):
    """A repetition of a complete run in a sweep's worker, with everything that the runs of a sweep share."""

    def __init__(self, results: Path) -> None:
        super().__init__(results)
        config = config_of(read_run(next(results.glob("runs/*"))).config)
        (results / "runs").rename(results / "alone")
        self._run = PlannedRun(run_id(identity_of(config)), config, [Cell("", [], [])])
        self._pool = Pool(1)
        self._worker = self._pool.start(self._run)

    @property
    def _pid(self) -> int:
        assert self._worker.process.pid  # set, because the process was started
        return self._worker.process.pid

    def _ended(self) -> float | None:
        if not self._pool.ended(timeout=0):
            return None
        log = self._run.log.read_text(encoding="utf-8")
        if self._worker.exit_code:
            raise SystemExit(f"a run failed: {log}")
        return float(log.split()[-4])  # "--- 12.3 s of CPU", a worker's last line


def compare(revision: str, settings: dict[str, str], sweep: bool) -> list[Cost]:
    """Return the cost of a run at ``revision``, in this working tree, and (with ``sweep``) in a sweep here."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "checkout"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", there, revision], cwd=ROOT, check=True)
        try:
            trees = {"there": there, "here": ROOT}
            runs: list[Run] = [RunAlone(tree, Path(folder) / name, settings) for name, tree in trees.items()]
            while any([run.poll() for run in runs]) or (sweep and len(runs) == 2):
                if sweep and len(runs) == 2 and runs[1].cost:
                    runs.append(RunOfSweep(runs[1].results))
                time.sleep(0.1)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", there], cwd=ROOT, check=True)
    return [run.cost for run in runs if run.cost]


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paired", description=__doc__)
    parser.add_argument("revision", help="the revision to compare with, such as eae63ba")
    parser.add_argument("--env", default="sokoban", help="sokoban, webshop or alfworld")
    parser.add_argument("--credit", default="gated_bepo", help="ppo_ungrouped for PPO with its critic")
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sweep", action="store_true", help="also train the run of this tree in a sweep")
    parser.add_argument("overrides", nargs="*", help="further settings of both runs, as key=value")
    options = parser.parse_intermixed_args(arguments)
    settings = {name: str(getattr(options, name)) for name in ("env", "credit", "updates", "seed")}
    more = dict(override.split("=", 1) for override in options.overrides)
    costs = compare(options.revision, {"tier": "laptop"} | FITTED | settings | more, options.sweep)
    columns = [options.revision, "here", *["in a sweep"] * options.sweep]
    print(f"{options.env}, {options.credit}, {options.updates} updates: CPU seconds and factors; {', '.join(columns)}")
    for name in ("before", "updates", "after"):
        print(f"  {name:8} {_compared([getattr(cost, name) for cost in costs])}")
    print(f"  {'total':8} {_compared([sum(cost[:3]) for cost in costs])}")
    each = _compared([1e3 * cost.updates / cost.transitions for cost in costs])
    print(f"  ms of the updates per training transition: {each}")


def _compared(values: list[float]) -> str:
    first, *others = values
    return f"{first:8.2f}" + "".join(f"  {value:8.2f} ({first / value:.2f})" for value in others)


if __name__ == "__main__":
    main()
