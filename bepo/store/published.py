"""Published runs: the runs of a tier that the repository holds, each as an archive, and the cells that they are.

paper/runs/<tier>/
    published.json        for readers: which commits trained the runs, by environment and model
    studies/<study>.json  the study's cells: overrides, what varies, run id
    <run id>.zip          the run (``bepo.store.archive``)
    policies/<run id>/    the policy of a few runs, as transformers loads it
    warm_starts/<name>/   what runs started from, as in a results folder; training takes it from here
    studies.db            the trials of Optuna studies (``bepo.sweep.published_trials``)
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bepo.store.archive import POLICIES, ArchivedRun, read_archive
from bepo.store.cells import checked_cell
from bepo.store.files import (
    Corrupt,
    advise,
    digest,
    digest_of_file,
    folder_name,
    read_object,
    read_sealed_folder,
    write_atomically,
)
from bepo.store.run_files import StoredRun

PUBLISHED = Path(__file__).parents[2] / "paper" / "runs"
"""Has a folder of published runs for each tier."""

WARM_STARTS = "warm_starts"
"""The folder of warm starts, in a results folder and among published runs."""

WARM_START = "warm_start.json"
"""The file of a warm start that says what it is and vouches for the others."""

TRIALS = "studies.db"
"""Optuna's database, in a results folder and among published runs."""


class PublishedRuns:
    """The published runs of one tier, in a folder that is named after it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tier = folder, folder.name

    def studies(self) -> list[str]:
        """Return the names of the studies that have published cells."""
        return sorted(path.stem for path in (self.folder / "studies").glob("*.json"))

    def cells(self, study: str) -> list[dict[str, Any]]:
        """Return a study's cells: dicts with ``overrides``, ``varying`` and ``run_id``. Raises ``Corrupt``."""
        path = self.folder / "studies" / f"{study}.json"
        cells = read_object(path, "list of cells").get("cells") if path.exists() else []
        if not isinstance(cells, list):
            raise Corrupt(f"{path}: not a list of cells")
        return [checked_cell(cell, path) for cell in cells]

    def runs_of_studies(self) -> Iterator[tuple[str, str]]:
        """Yield the study and the run id of each readable cell."""
        for study in self.studies():
            with suppress(Corrupt):
                yield from ((study, cell["run_id"]) for cell in self.cells(study))

    def note_cells(self, study: str, cells: list[dict[str, Any]]) -> None:
        """Add cells to a study; one with the same overrides is replaced."""
        known = {tuple(cell["overrides"]): cell for cell in [*self.cells(study), *cells]}
        path = self.folder / "studies" / f"{study}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(known[key], sort_keys=True) for key in sorted(known))
        write_atomically(path, f'{{"cells": [\n{lines}\n]}}\n')

    def commits(self) -> dict[str, list[str]]:
        """Return which commits trained the runs, in lists by environment and model, as read from the runs."""
        found: dict[str, set[str]] = defaultdict(set)
        for run_id in self.ids():
            with suppress(Corrupt):
                run = self.run(run_id)
                found[f"{run.config['env']['name']} {run.config['model']}"] |= run.commits
        return {key: sorted(found[key]) for key in sorted(found)}

    def noted_commits(self) -> dict[str, list[str]]:
        """Return what ``note_commits`` has written; empty without. Raises ``Corrupt``."""
        path = self.folder / "published.json"
        return read_object(path, "commits of published runs").get("commits", {}) if path.exists() else {}

    def note_commits(self) -> None:
        """Write ``commits()`` for readers."""
        content = {"version": 1, "commits": self.commits()}
        write_atomically(self.folder / "published.json", json.dumps(content, indent=1) + "\n")

    def ids(self) -> list[str]:
        """Return the ids of all published runs."""
        return sorted(path.stem for path in self.folder.glob("*.zip"))

    def archive(self, run_id: str) -> Path:
        """Return the path of a run's archive, which need not exist."""
        return self.folder / f"{run_id}.zip"

    def add_policy(self, run: StoredRun) -> None:
        """Copy the policy of a finished run, unless it is there. Raises ``Corrupt`` where it is not as it was."""
        folder = self.folder / POLICIES / run.id
        if not folder.exists():
            shutil.copytree(run.policy(), folder)

    def add_warm_start(self, results: Path, run: StoredRun) -> None:
        """Copy what a run started from out of its results folder, unless there is one of that name.

        Raises ``Corrupt`` where either is not what the run started from, and where the copied one is damaged.
        """
        source, target = (_warm_start_of(run, folder) for folder in (results, self.folder))
        if source and target and not target.exists():
            read_sealed_folder(source, WARM_START)
            _check_warm_start(run, results)
            shutil.copytree(source, target)
        self.check_warm_start(run)

    def check_warm_start(self, run: StoredRun) -> None:
        """Raise ``Corrupt`` if the published warm start is another one than a run says that it started from.

        Whether it is as it was written is a question to ``damaged_warm_starts``: many runs share one.
        """
        _check_warm_start(run, self.folder)

    def damaged_warm_starts(self) -> Iterator[Corrupt]:
        """Yield what is wrong with the files of each published warm start that is not as it was written."""
        for folder in self.warm_starts():
            try:
                read_warm_start(folder)
            except Corrupt as error:
                yield error

    def warm_starts(self) -> list[Path]:
        """Return the folders of all published warm starts."""
        return sorted((self.folder / WARM_STARTS).glob("*"))

    def with_policy(self) -> list[str]:
        """Return the ids of the runs whose policy is published, or should be: a folder bears their name."""
        return sorted(path.name for path in (self.folder / POLICIES).glob("*"))

    def run(self, run_id: str) -> ArchivedRun:
        """Read a run. Raises ``Corrupt``."""
        return read_archive(self.archive(run_id))


def warm_start_key(start: Mapping[str, Any]) -> str:
    """Return the end of a warm start's name: a digest of all that decides its weights."""
    return digest(json.dumps(start, sort_keys=True), 12)


def read_warm_start(folder: Path) -> None:
    """Read a published warm start from end to end.

    Raises ``Corrupt``, with the remedy, if it is not as it was, or is one of other settings under this name.
    """
    with advise(f"`git restore {folder}` brings back what was published"):
        made_for = read_sealed_folder(folder, WARM_START)
        made_for.pop("curve", None)
        if not folder.name.endswith(f"-{warm_start_key(made_for)}"):
            raise Corrupt(f"{folder}: made for other settings than its name says")


def _warm_start_of(run: StoredRun, folder: Path) -> Path | None:
    """Return where in ``folder`` the warm start is that a run names; None if it names none."""
    start = run.facts.get("warm_start")
    return folder / WARM_STARTS / folder_name(start["name"], "warm start") if start else None


def _check_warm_start(run: StoredRun, folder: Path) -> None:
    """Raise ``Corrupt`` if a run names a warm start and another one is in ``folder``, or none."""
    path = _warm_start_of(run, folder)
    if path and digest_of_file(path / WARM_START) != run.facts["warm_start"]["digest"]:
        raise Corrupt(f"{path}: run {run.id} has the same settings and started from other weights")
