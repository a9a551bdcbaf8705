"""``python -m benchmarks.paired REVISION --env ENV``: CPU seconds of a run here and at another revision, side by side.

Both run at the same time with one thread each and nothing cached, so that other load on the machine slows both. Seconds
before the first update (imports, task sets, warm start, first evaluation) and of the updates are given apart. Equal
seeds need not give equal episodes at both revisions, and a warm start may stop at another check: compare milliseconds
a training transition, or several seeds, where factors are close. Needs /proc (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
OLD_NAMES = {"tier": "scale"}  # settings of a run here, and what revisions before issue 14 called them (CHANGELOG.md)


class Cost(NamedTuple):
    """CPU seconds of a run, and how many transitions it was trained on."""

    before: float
    updates: float
    after: float
    transitions: int


class Run:
    """A training run as a process of its own, in a checkout of bepo."""

    def __init__(self, checkout: Path, results: Path, settings: dict[str, str]) -> None:
        if not (checkout / "conf" / "tier").exists():
            settings = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
        overrides = [f"{name}={value}" for name, value in settings.items()]
        self.results = results
        self._log = results.with_suffix(".log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bepo.train", *overrides, f"results={results}"],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._clock: list[float] = []  # CPU seconds when each update was first seen to be complete
        self.cost: Cost | None = None

    def poll(self) -> bool:
        """Note how far the run is, and return whether it goes on."""
        if self.cost is None:
            rows = self._rows()
            self._clock += [self._cpu_seconds()] * (len(rows) - len(self._clock))
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._finish(status, usage.ru_utime + usage.ru_stime)
        return self.cost is None

    def _finish(self, status: int, total: float) -> None:
        rows = self._rows()
        if status or not self._clock:
            raise SystemExit(f"a run failed; see {self._log.name}")
        n = [row.get("train/transitions", row.get("train/records", 0)) for row in rows]
        # The first update is taken to cost as much as the others do on average.
        updates = (self._clock[-1] - self._clock[0]) * sum(n) / max(sum(n[1:]), 1)
        after = total - self._clock[-1]
        self.cost = Cost(total - updates - after, updates, after, sum(n))

    def _rows(self) -> list[dict]:
        files = [*self.results.glob("runs/*/metrics.jsonl")]
        lines = files[0].read_text().splitlines(keepends=True) if files else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare(revision: str, settings: dict[str, str]) -> tuple[Cost, Cost]:
    """Return the cost of a run at ``revision`` and in this working tree."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "checkout"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", there, revision], cwd=ROOT, check=True)
        try:
            runs = [Run(tree, Path(folder) / name, settings) for tree, name in ((there, "there"), (ROOT, "here"))]
            while any([run.poll() for run in runs]):
                time.sleep(0.1)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", there], cwd=ROOT, check=True)
    costs = [run.cost for run in runs]
    assert costs[0] and costs[1]  # both are over
    return costs[0], costs[1]


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paired", description=__doc__)
    parser.add_argument("revision", help="what to compare with, such as eae63ba")
    parser.add_argument("--env", default="sokoban", help="sokoban, webshop or alfworld")
    parser.add_argument("--credit", default="gated_bepo", help="ppo_ungrouped for PPO with its critic")
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", help="further settings of both runs, as key=value")
    options = parser.parse_intermixed_args(arguments)
    settings = {name: str(getattr(options, name)) for name in ("env", "credit", "updates", "seed")}
    more = dict(override.split("=", 1) for override in options.overrides)
    there, here = compare(options.revision, {"tier": "laptop"} | settings | more)
    print(
        f"{options.env}, {options.credit}, {options.updates} updates: CPU seconds at {options.revision}, here, factor"
    )
    for name in ("before", "updates", "after"):
        a, b = getattr(there, name), getattr(here, name)
        print(f"  {name:8} {a:8.1f} {b:8.1f} {a / b:6.2f}")
    a, b = (sum(cost[:3]) for cost in (there, here))
    print(f"  {'total':8} {a:8.1f} {b:8.1f} {a / b:6.2f}")
    a, b = (1e3 * cost.updates / cost.transitions for cost in (there, here))
    print(f"  ms of the updates for each training transition: {a:.2f}, {b:.2f}; {a / b:.2f}")


if __name__ == "__main__":
    main()
