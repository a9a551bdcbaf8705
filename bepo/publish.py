"""``python -m bepo.publish [RESULTS]``: add the complete runs of a results folder to the published ones; check them.

A run is published if all of its sessions worked on a clean commit, its files are as they were written, and its
settings have the id that this bepo gives them. Runs of the main studies with seed 0 keep their rollouts and
transcripts, and those of Gated-BEPO among them their policy, unless the model is the larger one.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from bepo.core.errors import Parser, UserError, choose, exit_code, path_of
from bepo.runs.compose import config_of
from bepo.runs.config import TIERS, identity_of
from bepo.runs.metrics import success_rate
from bepo.store.archive import check_archive, write_archive
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt, advise
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.run_files import RUN, StoredRun, read_run
from bepo.store.runs import run_id
from bepo.sweep.published_trials import check_trials, publish_trials

_ANOTHER_START = (
    "remove it and the runs that began with it from the results folder, and train them from the published one"
)
MOST_BYTES = 60_000_000
"""All archives of a tier together may have so many bytes."""


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m bepo.publish", description=(__doc__ or "").split("\n\n")[1])
    add = parser.add_argument
    add("results", nargs="?", type=path_of, metavar="RESULTS", help="folder of finished runs; without: check only")
    add("--tier", default="laptop", help="the tier of the runs (default: laptop)")
    add("--to", type=path_of, default=PUBLISHED, metavar="FOLDER", help="default: paper/runs")
    options = parser.parse_args(arguments)
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.tier not in TIERS:
        raise choose("tier", options.tier, TIERS)
    published = PublishedRuns(options.to / options.tier)
    if options.results:
        _publish(options.results, published)
    problems = list(dict.fromkeys(check(published)))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{published.folder}: {len(published.ids())} runs, {_bytes(published) / 1e6:.1f} MB")
    return 2 if problems else 0


def _publish(results: Path, published: PublishedRuns) -> None:
    """Write archives and cells of every run that may be published; say which may not, and why.

    Raises ``UserError`` if the folder has no studies of the tier.
    """
    if not any(results.glob(f"studies/*/{published.tier}")):
        raise UserError(f"{results}: no results folder with studies of tier {published.tier}")
    cells: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)  # by run, each with its study
    for path in sorted(results.glob(f"studies/*/{published.tier}/*.json")):
        try:
            cell = read_cell(path)
        except Corrupt as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        cells[cell["run_id"]].append((path.parts[-3], cell))
    added: dict[str, list[dict[str, Any]]] = defaultdict(list)  # by study
    for identifier, found in cells.items():
        folder = results / "runs" / identifier
        if (folder / RUN).exists():
            try:
                _publish_run(read_run(folder), results, {study for study, _ in found}, published)
            except Corrupt as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
        elif not published.archive(identifier).exists():  # else a sweep has skipped it, and noted its cells
            continue
        for study, cell in found:
            added[study].append(cell)
    for study, its_cells in added.items():
        published.note_cells(study, its_cells)
    if added:
        published.note_commits()
        publish_trials(results, published)


def _publish_run(run: StoredRun, results: Path, studies: Collection[str], published: PublishedRuns) -> None:
    """Write the archive of a run and its warm start unless they are there, and its policy if that is to be kept.

    Raises ``Corrupt``.
    """
    if problem := obstacle(run):
        raise Corrupt(f"{run.path}: {problem}")
    with advise(_ANOTHER_START):
        published.add_warm_start(results, run)
    complete = run.config["seed"] == 0 and any(study.startswith("main_") for study in studies)
    if not published.archive(run.id).exists():
        write_archive(run, published.archive(run.id), complete)
    if complete and run.config["credit"]["name"] == "gated_bepo" and run.config["model"] != "large":
        published.add_policy(run)


def obstacle(run: StoredRun) -> str:
    """Say why a run is not one to publish; empty if it is."""
    for session in run.facts["sessions"]:
        if session.get("commit") is None or session.get("dirty"):
            return "it was trained from sources that no commit has: commit them, remove it and train it again"
    return stale(run)


def stale(run: StoredRun) -> str:
    """Say how this bepo would train other than the run says; empty if it would be the same run."""
    try:
        today = run_id(identity_of(config_of(run.config)))
    except UserError as error:
        return f"its settings are no longer understood ({error})"
    if today == run.id:
        return ""
    commits = ", ".join(sorted(commit[:7] for commit in run.commits))
    return f"its settings have the id {today} today; at commit {commits} it can be trained again"


def _another_result(run: StoredRun) -> str:
    """Say how the result of a run is not that of its episodes; empty if it is."""
    stated = run.facts["result"]
    counted = success_rate(run.episodes(), "test", stated["updates"])
    return "" if stated["success"] == counted else f"its success is {stated['success']}, and {counted} by its episodes"


def check(published: PublishedRuns) -> Iterator[str]:
    """Yield what is wrong with published runs: archives that are not intact, cells without a run, too many bytes.

    Also a run whose result is not what its episodes come to, one that this bepo would train otherwise, and a complete
    trial of Optuna without its runs.
    """
    pointed = {cell["run_id"] for study in published.studies() for cell in published.cells(study)}
    for identifier in sorted(pointed - set(published.ids())):
        yield f"{published.folder}: a study's cell is run {identifier}, which is not there"
    policies = published.with_policy()
    for identifier in published.ids():
        try:
            run = check_archive(published.archive(identifier))
        except Corrupt as error:
            yield str(error)
            continue
        if identifier not in pointed:
            yield f"{run.path}: no study has it"
        if problem := obstacle(run) or _another_result(run):
            yield f"{run.path}: {problem}"
        try:
            published.check_warm_start(run)
            if identifier in policies:
                run.policy()
        except Corrupt as error:
            yield str(error)
    yield from map(str, published.damaged_warm_starts())
    for identifier in sorted(set(published.with_policy()) - set(published.ids())):
        yield f"{published.folder}: a policy of run {identifier}, which is not there"
    yield from check_trials(published)
    if published.noted_commits() != published.commits():
        yield f"{published.folder / 'published.json'}: its commits are not those of the runs"
    if _bytes(published) > MOST_BYTES:
        yield f"{published.folder}: {_bytes(published)} bytes, and at most {MOST_BYTES} are published"


def _bytes(published: PublishedRuns) -> int:
    return sum(path.stat().st_size for path in published.folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
