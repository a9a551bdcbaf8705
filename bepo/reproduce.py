"""Train the first updates of four published runs again, and compare: ``python -m bepo.reproduce``.

The runs are those of the study ``reproduce``: GRPO, Gated-BEPO, Shrunk-BEPO and the oracle on text Sokoban, from a
published warm start. A line for each shows its success in training beside that of the published run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from joblib import cpu_count
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bepo.core.errors import Parser, exit_code, path_of, say
from bepo.credit import estimators
from bepo.runs.compare import same_kind
from bepo.runs.compose import register
from bepo.store.find import DEFAULT, make_writable
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.run_files import StoredRun, read_run
from bepo.sweep.estimate import Throughput
from bepo.sweep.grid import Grid
from bepo.sweep.plan import PlannedRun, plan_runs
from bepo.sweep.pool import Pool, Worker
from bepo.sweep.show import View, failures, format_time
from bepo.sweep.studies import compose_study

STUDY, WHOLE = "reproduce", "blocks"
"""The study of the short runs, and that of the published ones."""
TIER = "laptop"
LAST = 10
"""The number of updates at the end whose success in training is averaged."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0, 1 after a failed run, 2 for bad input, or 130 after Ctrl-C."""
    parser = Parser(prog="python -m bepo.reproduce", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--results", type=path_of, default=DEFAULT, metavar="FOLDER", help="default: results")
    options = parser.parse_args(arguments)
    return exit_code(lambda: _reproduce(options.results))


def _reproduce(results: Path) -> int:
    common = [f"tier={TIER}", f"results='{results}'", "tracking.mode=disabled"]
    register([])
    runs = plan_runs([compose_study(STUDY, common)])
    make_writable(results)
    published = published_counterparts(runs)
    cores = cpu_count()
    throughput = Throughput(results)
    first = runs[0].config
    say(
        f"Text Sokoban at tier {TIER}, {len(runs)} methods from one warm start, {first.updates} updates each: "
        f"{format_time([throughput.estimate(run) for run in runs], cores)}.\n"
        f"Shown: success in training in the last {LAST} of these updates, published and yours."
    )
    lines = Lines(throughput, cores, runs, published)
    outcome = Grid(runs, Pool(min(cores, len(runs))), lines).finish()
    if outcome.interrupted or outcome.is_bad:
        say("\n".join(failures(outcome, runs)))
        return 130 if outcome.interrupted else 1
    say(verdict([(published.get(run.id), read_run(run.folder.path)) for run in runs]))
    return 0


def published_counterparts(runs: Sequence[PlannedRun]) -> dict[str, StoredRun]:
    """Return the published run whose first updates each run makes, by the ID of the short run.

    Runs without a published counterpart are left out, as all are without a checkout.
    """
    config = runs[0].config
    credits = [word.partition("=")[2] for run in runs for word in run.cells[0].overrides if word.startswith("credit=")]
    chosen = [f"env={config.env.name}", f"seed={config.seed}", f"credit={','.join(credits)}", f"tier={TIER}"]
    whole = plan_runs([compose_study(WHOLE, chosen)])
    known = PublishedRuns(PUBLISHED / TIER)
    return {short.id: known.run(long.id) for short, long in zip(runs, whole, strict=True) if long.is_published}


def success(run: StoredRun, updates: int) -> float:
    """Return the mean success in training of the last ``LAST`` updates up to an update."""
    return fmean(row["train/success"] for row in run.metrics() if updates - LAST < row["update"] <= updates)


def verdict(pairs: Sequence[tuple[StoredRun | None, StoredRun]]) -> str:
    """Return in words whether the runs trained here have the numbers of the published ones."""
    updates = pairs[0][1].metadata["result"]["updates"]
    compared = [(old, new) for old, new in pairs if old is not None]
    equal = sum(success(old, updates) == success(new, updates) for old, new in compared)
    words = f"{equal} of {len(compared)} numbers equal the published ones exactly."
    if equal < len(compared):
        alike = all(same_kind(old, new) for old, new in compared)
        words += (
            " This machine is of the same kind as theirs: python -m bepo.verify says where they differ."
            if alike
            else " Another kind of CPU rounds differently, so its numbers differ from theirs."
        )
    return (
        words + "\nThis is one block: the figures over all blocks and their intervals follow from the published runs."
    )


class Lines(View):
    """A line with a bar for each run. Without a terminal, each line is printed once, at the end."""

    def __init__(
        self, throughput: Throughput, jobs: int, runs: Sequence[PlannedRun], published: dict[str, StoredRun]
    ) -> None:
        super().__init__(throughput, jobs, len(runs))
        self.runs, self.published = runs, published
        self.theirs = {
            short: {row["update"]: row["train/success"] for row in run.metrics()} for short, run in published.items()
        }
        console = Console(file=self.out, width=None if self.is_live else 100)
        texts = TextColumn("{task.description}"), TextColumn("{task.fields[said]}", markup=False)
        columns = texts[0], BarColumn(30), MofNCompleteColumn(), texts[1]
        self.bars = Progress(*columns, console=console, auto_refresh=False)
        for run in runs:
            self.bars.add_task(estimators()[run.config.credit.name].label, total=run.config.updates, said="")

    def begin(self, n_complete: int, n_failed: int) -> None:
        """Draw the lines for the first time."""
        self.bars.start()
        self._refresh()

    def draw(self, workers: Sequence[Worker], pending: Sequence[PlannedRun], n_elsewhere: int) -> None:
        """Draw the lines again."""
        self._refresh()

    def started(self, worker: Worker) -> None:
        """Say nothing: the line of the run shows it."""

    def completed(self, worker: Worker) -> None:
        """Say nothing: the line of the run shows it."""

    def end(self) -> None:
        """Draw the lines for the last time, and leave them."""
        self._refresh()
        self.bars.stop()

    def log(self, text: str) -> None:
        """Print a line above the bars."""
        self.bars.console.print(text, markup=False, highlight=False)

    def _refresh(self) -> None:
        for number, run in zip(self.bars.task_ids, self.runs):
            self.bars.update(number, **self._state(run))
        self.bars.refresh()

    def _state(self, run: PlannedRun) -> dict[str, Any]:
        """Return the progress of a run, with words about its success."""
        state, total = run.progress(hashed=False), run.config.updates
        old = self.published.get(run.id)
        published = f"published: {success(old, total):.3f}" if old else "published: none"
        if state.status == "complete":
            return {"completed": total, "said": f"{published}, yours: {success(read_run(run.folder.path), total):.3f}"}
        if not state.last:
            return {"completed": state.updates, "said": published}
        theirs = self.theirs.get(run.id, {}).get(state.updates)
        alone = "none" if theirs is None else f"{theirs:.3f}"
        newest = f"update {state.updates} alone: {alone}, yours: {state.last['train/success']:.3f}"
        return {"completed": state.updates, "said": f"{published}; {newest}"}


if __name__ == "__main__":
    sys.exit(main())
