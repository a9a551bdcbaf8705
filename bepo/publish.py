"""``python -m bepo.publish [RESULTS]``: add the complete runs of a results folder to the published runs; check them.

A run is published if it was trained on a clean commit, its files have not changed, and this version of bepo gives its
settings the same run ID. Archives of the main studies with seed 0, and of the first block of study blocks, also hold
rollouts and transcripts. The policy of Gated-BEPO is published for a small model and seed 0, and in the first block of
tier desktop, there with that of Shrunk-BEPO.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from statistics import StatisticsError
from typing import Any

from bepo.core.errors import Parser, UserError, exit_code, path_of, unknown_choice
from bepo.explore.frames import flat
from bepo.runs.compose import config_of, register_configs
from bepo.runs.config import TIERS, identity_of
from bepo.runs.metrics import success_rate
from bepo.store.archive import check_archive, write_archive
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt, with_hint
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.run_files import RUN, StoredRun, read_run
from bepo.store.runs import run_id
from bepo.sweep.published_trials import check_trials, publish_trials
from bepo.sweep.studies import Cell, compose_cells

_ANOTHER_START = (
    "remove it, and the runs that started from it, from the results folder; train them again from the published one"
)
_FIRST_BLOCKS = {"blocks": 100, "desktop": 300}  # the first seeds of experiments/blocks.yaml and desktop.yaml
MOST_BYTES = 130_000_000
"""Size limit of the published files of a tier, in bytes."""


def main(arguments: list[str] | None = None) -> int:
    register_configs()
    parser = Parser(prog="python -m bepo.publish", description=(__doc__ or "").split("\n\n")[1])
    add = parser.add_argument
    add("results", nargs="?", type=path_of, metavar="RESULTS", help="folder of finished runs (default: only check)")
    add("--tier", default="laptop", help="the tier of the runs (default: laptop)")
    add("--to", type=path_of, default=PUBLISHED, metavar="FOLDER", help="default: paper/runs")
    options = parser.parse_args(arguments)
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.tier not in TIERS:
        raise unknown_choice("tier", options.tier, TIERS)
    published = PublishedRuns(options.to / options.tier)
    if options.results:
        _publish(options.results, published)
    problems = list(dict.fromkeys(check(published)))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"{published.folder}: {len(published.ids())} runs, {_bytes(published) / 1e6:.1f} MB")
    return 2 if problems else 0


def _publish(results: Path, published: PublishedRuns) -> None:
    """Write archives and cells of every run that may be published. Print which may not, and why.

    Raises ``UserError`` if the folder has no studies of the tier.
    """
    if not any(results.glob(f"studies/*/{published.tier}")):
        raise UserError(f"{results}: not a results folder with studies of tier {published.tier}")
    cells: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)  # by run, each with its study
    for path in sorted(results.glob(f"studies/*/{published.tier}/*.json")):
        try:
            cell = read_cell(path)
        except Corrupt as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        cells[cell["run_id"]].append((path.parts[-3], cell))
    added: dict[str, list[dict[str, Any]]] = defaultdict(list)  # by study
    for identifier, noted in cells.items():
        folder = results / "runs" / identifier
        if (folder / RUN).exists():
            try:
                _publish_run(read_run(folder), results, {study for study, _ in noted}, published)
            except Corrupt as error:
                print(f"left out: {error}", file=sys.stderr)
                continue
        elif not published.archive(identifier).exists():  # otherwise a sweep skipped it and noted only its cells
            continue
        for study, cell in noted:
            added[study].append(cell)
    for study, its_cells in added.items():
        published.note_cells(study, its_cells)
    if added:
        published.note_commits()
        publish_trials(results, published)


def _publish_run(run: StoredRun, results: Path, studies: Collection[str], published: PublishedRuns) -> None:
    """Write the archive of a run, its warm start, and its policy if it is to be kept. Existing files stay.

    Raises ``Corrupt``.
    """
    if problem := obstacle(run):
        raise Corrupt(f"{run.path}: {problem}")
    with with_hint(_ANOTHER_START):
        published.add_warm_start(results, run)
    seed, method = run.config["seed"], run.config["credit"]["name"]
    main = seed == 0 and any(study.startswith("main_") for study in studies)
    first = {study for study in studies if _FIRST_BLOCKS.get(study) == seed}
    if not published.archive(run.id).exists():
        write_archive(run, published.archive(run.id), main or bool(first))
    small = main and method == "gated_bepo" and run.config["model"] != "large"
    if small or ("desktop" in first and method in ("gated_bepo", "shrunk_bepo")):
        published.add_policy(run)


def obstacle(run: StoredRun) -> str:
    """Return why a run cannot be published; empty if it can."""
    lacking = [name for name in ("sessions", "result", "identity") if name not in run.metadata]
    if lacking or not {"success", "updates"} <= run.metadata["result"].keys():
        return f"its {lacking[0] if lacking else 'result'} is not complete"
    for session in run.metadata["sessions"]:
        if session.get("commit") is None or session.get("dirty"):
            return "it was trained with uncommitted sources; commit them, remove the run and train it again"
    return stale(run)


def stale(run: StoredRun) -> str:
    """Return the parts that this version of bepo would train differently; empty if it would be the same run."""
    try:
        today = run_id(identity_of(config_of(run.config)))
    except UserError as error:
        return f"this version of bepo does not know its settings ({error})"
    if today == run.id:
        return ""
    commits = ", ".join(sorted(commit[:7] for commit in run.commits))
    return f"its settings now have the run ID {today}; commit {commits} can train it again"


def _another_result(run: StoredRun) -> str:
    """Return the difference between a run's stated result and its episodes; empty if they agree."""
    stated = run.metadata["result"]
    try:
        counted = success_rate(run.episodes(), "test", stated["updates"])
    except StatisticsError:
        return "has no test episodes of its last policy"
    return "" if stated["success"] == counted else f"states success {stated['success']}, its episodes give {counted}"


def check(published: PublishedRuns) -> Iterator[str]:
    """Yield what is wrong with published runs: damaged archives, cells without a run or of another, too many bytes.

    Also yield runs that state another result than their episodes give, runs that ``obstacle`` refuses, and complete
    Optuna trials whose runs are missing.
    """
    pointed = {cell["run_id"] for study in published.studies() for cell in published.cells(study)}
    for identifier in sorted(pointed - set(published.ids())):
        yield f"{published.folder}: run {identifier} of a study's cell is missing"
    policies, identities = published.with_policy(), dict[str, dict[str, Any]]()
    for identifier in published.ids():
        try:
            run = check_archive(published.archive(identifier))
        except Corrupt as error:
            yield str(error)
            continue
        identities[identifier] = run.metadata.get("identity", {})
        if identifier not in pointed:
            yield f"{run.path}: does not belong to a study"
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
        yield f"{published.folder}: there is a policy of run {identifier}, but the run is missing"
    yield from check_trials(published)
    yield from _check_cells(published, identities)
    if published.noted_commits() != published.commits():
        yield f"{published.folder / 'published.json'}: lists other commits than the runs"
    if _bytes(published) > MOST_BYTES:
        yield f"{published.folder}: {_bytes(published)} bytes; must be at most {MOST_BYTES}"


def _check_cells(published: PublishedRuns, identities: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield an error for each cell that points at a run with other settings than the cell's.

    ``identities`` are those of the runs that could be read. Cells that differ only by seed are composed once: where the
    composed settings have the seed, the run must have its own. A setting that a cell has twice is not compared, because
    cells do not keep the order of their overrides.
    """
    for study in published.studies():
        composed: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}
        for cell in published.cells(study):
            others = tuple(word for word in cell["overrides"] if not word.startswith("seed="))
            place = f"{published.folder}: study {study}, cell {' '.join(cell['overrides'])}"
            try:
                if others not in composed:
                    (config,) = compose_cells([Cell(study, cell["overrides"], [])])
                    composed[others] = config.seed, dict(flat(_as_stored(identity_of(config))))
            except UserError as error:
                yield f"{place} does not compose ({error})"
                continue
            if (identity := identities.get(cell["run_id"])) is None:
                continue
            (first, wanted), names = composed[others], [word.partition("=")[0] for word in others]
            twice = tuple(name for name in names if names.count(name) > 1)
            stored = dict(flat(identity))
            seed = next((word.removeprefix("seed=") for word in cell["overrides"] if word.startswith("seed=")), first)
            for name in sorted(wanted.keys() | stored.keys()):
                here, there = wanted.get(name), stored.get(name)
                follows = type(here) is int and here == first and str(there) == str(seed)
                is_known = name not in twice and not name.startswith(tuple(f"{part}." for part in twice))
                if is_known and not follows and (here != there or name == "seed"):
                    yield f"{place} points at run {cell['run_id']}, whose {name} is {there}, not {here}"
                    break


def _as_stored(identity: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(identity))


def _bytes(published: PublishedRuns) -> int:
    return sum(path.stat().st_size for path in published.folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
