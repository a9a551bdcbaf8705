"""Published runs: the runs of a tier in the repository, each as an archive, with their study cells.

``paper/runs/<tier>/`` holds::

    published.json        for readers: the commits that trained the runs, by environment and model
    studies/<study>.json  the study's cells: overrides, what varies, run ID
    <run id>.zip          the run (``bepo.store.archive``)
    policies/<run id>/    the policy of some runs, in the format of transformers
    warm_starts/<name>/   the weights that runs start from, as in a results folder; training reads them here
    studies.db            the trials of Optuna studies (``bepo.sweep.published_trials``)
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from bepo.core.places import PAPER
from bepo.store.archive import POLICIES, ArchivedRun, read_archive
from bepo.store.cells import checked_cell
from bepo.store.files import Corrupt, digest, digest_of_file, folder_name, with_hint, write_atomically
from bepo.store.folders import read_sealed_folder
from bepo.store.json_files import read_object
from bepo.store.run_files import StoredRun

PUBLISHED = PAPER / "runs"
"""Parent folder of the published runs of each tier. A wheel has none."""

WARM_STARTS = "warm_starts"
"""Name of the folder of warm starts, in a results folder and among published runs."""

WARM_START = "warm_start.json"
"""The file of a warm start that holds its settings and the checksums of its other files."""

TRIALS = "studies.db"
"""Name of Optuna's database, in a results folder and among published runs."""


class PublishedRuns:
    """The published runs of one tier; the folder is named after the tier."""

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
        """Yield the study and the run ID of each readable cell."""
        for study in self.studies():
            with suppress(Corrupt):
                yield from ((study, cell["run_id"]) for cell in self.cells(study))

    def note_cells(self, study: str, cells: list[dict[str, Any]]) -> None:
        """Add cells to a study. A cell with the same overrides is replaced."""
        known = {tuple(cell["overrides"]): cell for cell in [*self.cells(study), *cells]}
        path = self.folder / "studies" / f"{study}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(known[key], sort_keys=True) for key in sorted(known))
        write_atomically(path, f'{{"cells": [\n{lines}\n]}}\n')

    def commits(self) -> dict[str, list[str]]:
        """Return the commits that trained the runs, by environment and model, as read from the runs."""
        by_kind: dict[str, set[str]] = defaultdict(set)
        for run_id in self.ids():
            with suppress(Corrupt):
                run = self.run(run_id)
                by_kind[f"{run.config.get('env', {}).get('name')} {run.config.get('model')}"] |= run.commits
        return {key: sorted(by_kind[key]) for key in sorted(by_kind)}

    def noted_commits(self) -> dict[str, list[str]]:
        """Return the commits that ``note_commits`` wrote; empty if the file is missing. Raises ``Corrupt``."""
        path = self.folder / "published.json"
        return read_object(path, "commits of published runs").get("commits", {}) if path.exists() else {}

    def note_commits(self) -> None:
        """Write ``commits()`` for readers."""
        content = {"version": 1, "commits": self.commits()}
        write_atomically(self.folder / "published.json", json.dumps(content, indent=1) + "\n")

    def ids(self) -> list[str]:
        """Return the IDs of all published runs."""
        return sorted(path.stem for path in self.folder.glob("*.zip"))

    def archive(self, run_id: str) -> Path:
        """Return the path of a run's archive. The file may be missing."""
        return self.folder / f"{run_id}.zip"

    def add_policy(self, run: StoredRun) -> None:
        """Copy the policy of a finished run, unless it is published. Raises ``Corrupt`` if its files changed."""
        folder = self.folder / POLICIES / run.id
        if not folder.exists():
            shutil.copytree(run.policy(), folder)

    def add_warm_start(self, results: Path, run: StoredRun) -> None:
        """Copy the warm start of a run from its results folder, unless one of this name is published or it is not kept.

        Raises ``Corrupt`` if a warm start is damaged or is not the one that the run started from.
        """
        source, target = (_warm_start_of(run, folder) for folder in (results, self.folder))
        if source and target and not target.exists() and _is_kept(run):
            read_sealed_folder(source, WARM_START)
            _check_warm_start(run, results)
            shutil.copytree(source, target)
        self.check_warm_start(run)

    def check_warm_start(self, run: StoredRun) -> None:
        """Raise ``Corrupt`` if the published warm start is not the one that the run started from.

        One that is not kept may be missing: then its digest in ``run.json`` must be that of the other runs with its
        settings. ``damaged_warm_starts`` checks the files of warm starts once for all runs.
        """
        path = _warm_start_of(run, self.folder)
        if _is_kept(run) or (path and path.exists()):
            _check_warm_start(run, self.folder)
        elif path:
            digest = run.metadata["warm_start"]["digest"]
            known, first = self._starts.setdefault(path.name, (digest, run.id))
            if digest != known:
                raise Corrupt(f"run {run.id} started from other weights than run {first}, with the same settings")

    @cached_property
    def _starts(self) -> dict[str, tuple[str, str]]:
        """The digest of each warm start that runs name, and one of these runs."""
        starts: dict[str, tuple[str, str]] = {}
        for run_id in self.ids():
            with suppress(Corrupt):
                if start := self.run(run_id).metadata.get("warm_start"):
                    starts.setdefault(start["name"], (start["digest"], run_id))
        return starts

    def damaged_warm_starts(self) -> Iterator[Corrupt]:
        """Yield an error for each published warm start with damaged files."""
        for folder in self.warm_starts():
            try:
                read_warm_start(folder)
            except Corrupt as error:
                yield error

    def warm_starts(self) -> list[Path]:
        """Return the folders of all published warm starts."""
        return sorted((self.folder / WARM_STARTS).glob("*"))

    def with_policy(self) -> list[str]:
        """Return the IDs of the runs that have a folder among the published policies."""
        return sorted(path.name for path in (self.folder / POLICIES).glob("*"))

    def run(self, run_id: str) -> ArchivedRun:
        """Read a run. Raises ``Corrupt``."""
        return read_archive(self.archive(run_id))


def warm_start_key(start: Mapping[str, Any]) -> str:
    """Return the suffix of a warm start's name: a digest of everything that determines its weights."""
    return digest(json.dumps(start, sort_keys=True), 12)


def read_warm_start(folder: Path) -> None:
    """Check all files of a published warm start.

    Raises ``Corrupt`` if a file changed, or if the name belongs to other settings. The message says how to restore it.
    """
    with with_hint(f"`git restore {folder}` restores the published files"):
        made_for = read_sealed_folder(folder, WARM_START)
        made_for.pop("curve", None)
        if not folder.name.endswith(f"-{warm_start_key(made_for)}"):
            raise Corrupt(f"{folder}: made for other settings, its name has another digest")


def _is_kept(run: StoredRun) -> bool:
    """Return whether a run's warm start is published.

    Tier desktop keeps all, as paper/desktop.yaml declares. The other tiers keep the first four of each hundred seeds.
    """
    start = run.config["policy"].get("warm_start")
    return start is None or run.config["tier"] == "desktop" or start["seed"] % 100 < 4


def _warm_start_of(run: StoredRun, folder: Path) -> Path | None:
    """Return the path of a run's warm start in ``folder``; None if the run had no warm start."""
    start = run.metadata.get("warm_start")
    return folder / WARM_STARTS / folder_name(start["name"], "warm start") if start else None


def _check_warm_start(run: StoredRun, folder: Path) -> None:
    """Raise ``Corrupt`` if the warm start of a run is missing in ``folder`` or differs."""
    path = _warm_start_of(run, folder)
    if path and digest_of_file(path / WARM_START) != run.metadata["warm_start"]["digest"]:
        raise Corrupt(f"{path}: run {run.id} has the same settings, but started from other weights")
