"""Where runs come from: a results folder, a W&B project that is brought into this form first, and published runs."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from analysis.data.runs import METHOD, RowKey, Run, StudyRuns, select
from bepo.core.errors import choose
from bepo.runs.config import TIERS
from bepo.store import tracking
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.run_files import RUN, StoredRun, read_run, refuse_older

_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, RuntimeError, OSError)
"""What reading a file of another content than bepo writes can raise."""


class Source:
    """A results folder, and published runs beside it: of two runs with one id the one in the folder counts.

    Every run and every study's cells are read and checked once, however many artefacts use them.
    """

    def __init__(self, results: Path, published: Path | None = None, seeds: Collection[int] = ()) -> None:
        """``published`` is a folder with one folder of published runs for each tier; None: there are none.

        Studies have runs of these training ``seeds`` only; without, of all.
        """
        self.results, self.seeds = results, sorted(seeds)
        self.published = {tier: PublishedRuns(published / tier) for tier in TIERS} if published else {}
        self._read: dict[str, Run | str] = {}
        self._read_cells: dict[tuple[str, str], list[dict[str, Any] | str]] = {}

    @property
    def label(self) -> str:
        """Where the runs come from, in words."""
        published = [str(runs.folder) for runs in self.published.values() if runs.studies()]
        return " and ".join([str(self.results)] * self.results.exists() + published)

    def tiers(self) -> list[str]:
        """Return the tiers that some study has runs at, from the least to the most meaningful."""
        present = {path.name for path in (self.results / "studies").glob("*/*") if path.is_dir()}
        present |= {tier for tier, runs in self.published.items() if runs.studies()}
        return [tier for tier in TIERS if tier in present]

    def study(self, name: str, tier: str, key: RowKey = METHOD, allow_mixed: bool = False) -> StudyRuns:
        """Return the runs that the study's cells point at and that may be compared.

        Incomplete, corrupt and foreign runs are named in ``skipped``, and never averaged.
        """
        study = StudyRuns(name, tier, key=key, trials=self.trials(tier), seeds=self.seeds)
        return select(study, self._usable(study), allow_mixed)

    def trials(self, *tiers: str) -> tuple[Path, ...]:
        """Return the folders that may hold a database of Optuna; a study in a later one counts."""
        return (*(self.published[tier].folder for tier in tiers if tier in self.published), self.results)

    def all_of_study(self, name: str, tier: str) -> list[Run]:
        """Return the complete, intact runs that the study's cells point at, also those that may not be compared."""
        return self._usable(StudyRuns(name, tier))

    def studies(self) -> list[str]:
        """Return the names of all studies that have cells."""
        local = {path.name for path in (self.results / "studies").glob("*") if path.is_dir()}
        return sorted(local.union(*(runs.studies() for runs in self.published.values())))

    def _usable(self, study: StudyRuns) -> list[Run]:
        """Return the complete runs of a study, and note in ``skipped`` why others are left out."""
        name, tier = study.name, study.tier
        identifiers, usable = set(), []
        if (name, tier) not in self._read_cells:
            self._read_cells[name, tier] = list(self._cells(name, tier))
        for cell in self._read_cells[name, tier]:
            if isinstance(cell, str):
                study.skipped.append(cell)
            else:
                identifiers.add(cell["run_id"])
        for run in (self.run(identifier, tier) for identifier in sorted(identifiers)):
            if isinstance(run, str):
                study.skipped.append(run)
            elif run.tier != tier:
                study.skipped.append(f"{run.path}: its tier is {run.tier}, not {tier}")
            elif not self.seeds or run.seed in self.seeds:
                usable.append(run)
        return usable

    def _cells(self, study: str, tier: str) -> Iterator[dict[str, Any] | str]:
        """Yield the study's cells, or why one cannot be read."""
        for path in sorted((self.results / "studies" / study / tier).glob("*.json")):
            try:
                yield read_cell(path)
            except Corrupt as error:
                yield str(error)
        if tier in self.published:
            try:
                yield from self.published[tier].cells(study)
            except Corrupt as error:
                yield str(error)

    def run(self, identifier: str, tier: str) -> Run | str:
        """Return the run, or why it cannot be used."""
        if identifier not in self._read:
            try:
                run = Run(self._stored(identifier, tier), self._is_published(identifier))
                if run.missing:
                    raise Corrupt(f"{run.path}: {run.missing_episodes}, so it has no success rate")
                run.passes()
                self._read[identifier] = run
            except Corrupt as error:
                self._read[identifier] = str(error)
            except _ODD as error:  # it vouches for itself, but a stranger made it
                folder = self.results / "runs" / identifier
                self._read[identifier] = f"{folder}: not a run of this bepo ({error!r:.200})"
        return self._read[identifier]

    def _stored(self, identifier: str, tier: str) -> StoredRun:
        folder = self.results / "runs" / identifier
        published = self.published.get(tier)
        if published and not (folder / RUN).exists() and published.archive(identifier).exists():
            return published.run(identifier)
        return read_run(folder)

    def _is_published(self, identifier: str) -> bool:
        return any(runs.archive(identifier).exists() for runs in self.published.values())

    def runs(self) -> Iterator[Run]:
        """Yield every complete, intact run once, in no particular order."""
        local = ((path.name, "") for path in sorted((self.results / "runs").glob("*")))
        published = ((run_id, tier) for tier, runs in self.published.items() for run_id in runs.ids())
        for identifier, tier in dict([*published, *local]).items():
            found = self.run(identifier, tier)
            if isinstance(found, Run):
                yield found


def open_source(results: Path, source: str | None = None, seeds: Collection[int] = ()) -> Source:
    """Return the runs that ``source`` names: None for a results folder and the published runs together.

    ``local`` is the results folder alone, ``published`` the published runs alone; ``wandb:entity/project`` is
    downloaded into a folder below the results folder. ``seeds`` are the training seeds that count, all without.
    """
    if source == "published":
        return Source(PUBLISHED / "no results folder", PUBLISHED, seeds)
    if source in (None, "local"):
        refuse_older(results)
        return Source(results, PUBLISHED if source is None else None, seeds)
    kind, _, project = source.partition(":")
    if kind != "wandb" or project.count("/") != 1:
        raise choose("source", source, ("local", "published", "wandb:ENTITY/PROJECT"))
    folder = results / "wandb" / project
    tracking.download(project, folder)
    return Source(folder, seeds=seeds)
