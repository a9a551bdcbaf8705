"""Find runs by name: a folder, an archive, a run ID or its beginning. They may be complete or in progress."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TypeVar

from bepo.core.errors import UserError, why
from bepo.core.places import EXPERIMENTS
from bepo.core.plugins import plugin_folders
from bepo.store.archive import check_archive, read_archive
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt
from bepo.store.locks import locked, try_acquire
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.run_files import CONFIG, ROLLOUTS, RUN, TRANSCRIPTS, StoredRun, read_config, read_run

T = TypeVar("T")
DEFAULT = Path("results")
"""The default results folder."""
MANY = 100
"""Runs whose reading is announced."""


class UnfinishedRun(StoredRun):
    """A run without ``run.json``, as far as it is written. Another process may be writing it."""

    @property
    def id(self) -> str:
        """The run ID, which is the name of its folder."""
        return self.path.name

    def names(self) -> list[str]:
        """Return the names of the transcripts and rollout batches that are written so far."""
        paths = [path for path in (self.path / TRANSCRIPTS, *(self.path / ROLLOUTS).glob("*.npz")) if path.exists()]
        return sorted(str(path.relative_to(self.path)) for path in paths)

    def transcripts(self) -> list[dict]:
        """Read the transcripts; empty while they are being written."""
        try:
            return super().transcripts()
        except (gzip.BadGzipFile, EOFError, ValueError):
            return []


def existing(results: Path) -> Path:
    """Return a results folder. Raises ``UserError`` if it does not exist.

    The default folder may be missing: then only the published runs are read.
    """
    if results != DEFAULT and not results.is_dir():
        raise UserError(f"results={results}: no such folder; leave it out to read the published runs")
    return results


def make_writable(results: Path) -> None:
    """Make a results folder.

    Raises ``UserError`` if it cannot be made, if no file can be written there, or if its file system has no locks:
    without them two processes would train one run.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=results).close()
        works = _locks_work(results)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise UserError(f"results={results}: cannot be written ({why(error)})") from error
    if not works:
        raise UserError(f"results={results}: its file system has no working file locks; choose a folder on another one")


def _locks_work(results: Path) -> bool:
    """Return whether a lock that is held is refused to others."""
    with TemporaryDirectory(dir=results) as folder, locked(Path(folder) / "lock"):
        other = try_acquire(Path(folder) / "lock")
        if other is not None:
            other.release()
        return other is None


def views(results: Path) -> Path:
    """Return the folder for pages and pictures of results: ``views`` in their folder, or here if that is read-only."""
    folder = results / "views"
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    return folder if os.access(nearest, os.W_OK) else Path("views")


def read_any(path: Path, published: Callable[[Path], StoredRun] = read_archive) -> StoredRun:
    """Read a run folder, complete or not, or an archive of a run. Raises ``Corrupt``.

    The rows of an archive are compared with ``run.json`` too, but not those of published ones, of which there are many:
    ``bepo.publish`` does that. ``published`` reads those.
    """
    if path.suffix == ".zip":
        run = published(path) if PUBLISHED in path.parents else check_archive(path)
    elif (path / RUN).exists():
        run = read_run(path)
    else:
        run = UnfinishedRun(path, {}, read_config(path))
    parts = [run.config.get(part) for part in ("env", "credit")]
    if "seed" not in run.config or not all(isinstance(part, dict) and "name" in part for part in parts):
        raise Corrupt(f"{path}: its config has no env.name, credit.name or seed")
    return run


def every_run(results: Path) -> dict[str, Path]:
    """Return the path of every run of a results folder and of every published run, by run ID.

    If both have a run, the folder counts where the run is complete there.
    """
    every = {path.stem: path for path in sorted(PUBLISHED.glob("*/*.zip"))}
    for path in sorted(results.glob(f"runs/*/{CONFIG}")):
        if path.with_name(RUN).exists() or path.parent.name not in every:
            every[path.parent.name] = path.parent
    return every


def read_every(results: Path, tier: str | None, published: Callable[[Path], StoredRun]) -> list[StoredRun]:
    """Read every run of ``every_run``, or only those of a tier. Print runs that cannot be read on standard error.

    ``published`` reads the archive of a published run. Raises ``UserError`` if no run is left.
    """
    runs = _readable(list(every_run(results).values()), f"results={results}", published)
    tiers = [run.config.get("tier", "") for run in runs]
    if tier is not None and tier not in tiers:
        raise UserError(f"no run of tier {tier!r}; tiers that have runs: {', '.join(sorted(set(tiers)))}")
    return [run for run, of_run in zip(runs, tiers) if tier in (None, of_run)]


def _readable(
    paths: Sequence[Path], name: str, published: Callable[[Path], StoredRun] = read_archive
) -> list[StoredRun]:
    """Read runs. Print those that cannot be read on standard error. Raises ``UserError`` if no run can be read."""
    runs = []
    if len(paths) > MANY:
        print(f"reading {len(paths)} runs", file=sys.stderr)
    for path in paths:
        try:
            runs.append(read_any(path, published))
        except Corrupt as error:
            print(f"left out: {error}", file=sys.stderr)
    if not runs:
        raise UserError(f"{name}: no run that can be read")
    return runs


def each_readable(runs: Sequence[StoredRun], read: Callable[[StoredRun], T]) -> Iterator[tuple[StoredRun, T]]:
    """Yield each run with what ``read`` returns for it. Print runs whose rows cannot be read on standard error.

    Raises ``Corrupt`` for a single run, and if no run can be read.
    """
    usable = False
    for number, run in enumerate(runs, 1):
        try:
            value = read(run)
        except Corrupt as error:
            if number == len(runs) and not usable:
                raise
            print(f"left out: {error}", file=sys.stderr)
            continue
        usable = True
        yield run, value


def find_run(run_id: str, results: Path) -> StoredRun:
    """Return the complete run with a given ID from a results folder or the published runs.

    Raises ``UserError`` if the run is missing or incomplete, or if its files changed.
    """
    places = every_run(results)
    path = places.get(run_id)
    if path is None:
        near = beginning_with(run_id, places)
        raise UserError(
            f"run={run_id}: not found in {results} or the published runs; "
            f"`python -m analysis runs` lists them{f'; did you mean {near[0]}?' if near else ''}"
        )
    return check_archive(path) if path.suffix == ".zip" else read_run(path)


def find_runs(name: str, results: Path, tier: str | None = None) -> list[StoredRun]:
    """Return the runs with this name; ``tier`` limits those of a study.

    ``name`` is a run folder, an archive (.zip), a results folder, a run ID, a study of ``results`` or of the published
    runs, or the beginning of a run ID. The name of a study is never read as a beginning, even if the study has no runs
    yet. Raises ``UserError`` if nothing has this name, if a run and a study have it, or if several IDs begin with it.
    Raises ``Corrupt`` for a single run that cannot be read. Of several runs, print those that cannot be read on
    standard error.
    """
    path = Path(name)
    if path.suffix == ".zip" or (path / CONFIG).exists():
        if not path.exists():
            raise UserError(f"{path}: no such archive")
        return [read_any(path)]
    if (path / "runs").is_dir():
        return _readable([config.parent for config in sorted(path.glob(f"runs/*/{CONFIG}"))], name)
    places = every_run(results)
    is_study = name in _studies(results)
    if is_study and name in places:
        raise UserError(f"{name}: a run and a study have this name; name the run by its path, {places[name]}")
    if is_study:
        chosen = list(dict.fromkeys(i for i in _runs_of_study(name, results, tier) if i in places))
    else:
        chosen = [name] if name in places else beginning_with(name, places)
    if not chosen:
        what, of_tier = "study" if is_study else "run", f" of tier {tier}" if tier else ""
        raise UserError(
            f"{what} {name!r}: not found in {results} or the published runs{of_tier}; choices: a run folder, an "
            "archive, the beginning of a run ID, a study; `python -m analysis runs` lists the runs"
        )
    return [read_any(places[chosen[0]])] if len(chosen) == 1 else _readable([*map(places.__getitem__, chosen)], name)


def beginning_with(name: str, ids: Iterable[str]) -> list[str]:
    """Return the run ID that begins with ``name`` in a list, or an empty list. Raises ``UserError`` for several."""
    matches = [run_id for run_id in ids if run_id.startswith(name)] if name else []
    if len(matches) > 1:
        raise UserError(f"run {name!r}: several run IDs begin with it; choices: {', '.join(matches)}")
    return matches


def _studies(results: Path) -> set[str]:
    """Return the names of all studies: those of the results folder, the published ones, and those that can be run."""
    files = (path.stem for folder in (EXPERIMENTS, *plugin_folders("experiments")) for path in folder.glob("*.yaml"))
    recorded = (path.name for path in (results / "studies").glob("*"))
    return {*recorded, *files, *(path.stem for path in PUBLISHED.glob("*/studies/*.json"))}


def _runs_of_study(study: str, results: Path, tier: str | None) -> Iterator[str]:
    """Yield the run IDs of the cells of a study."""
    for path in sorted((results / "studies" / study).glob(f"{tier or '*'}/*.json")):
        try:
            yield read_cell(path)["run_id"]
        except Corrupt as error:
            print(f"left out: {error}", file=sys.stderr)
    yield from (run_id for name, run_id in published_studies(tier) if name == study)


def published_studies(tier: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield the study and the run ID of each readable cell of the published runs."""
    for folder in sorted(path for path in PUBLISHED.glob("*") if path.is_dir() and tier in (None, path.name)):
        yield from PublishedRuns(folder).runs_of_studies()
