"""Sources of runs: a results folder, published runs, and a W&B project that is downloaded into a results folder."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from analysis.data.rows import METHOD, RowKey
from analysis.data.runs import Run
from analysis.data.studies import StudyRuns, select
from bepo.core.errors import unknown_choice
from bepo.explore.columns import ColumnRun, PublishedColumns
from bepo.runs.config import TIERS
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt
from bepo.store.published import PUBLISHED, TRIALS, PublishedRuns
from bepo.store.run_files import RUN, StoredRun, read_run, refuse_older
from bepo.store.tracking import wandb as tracking

_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, RuntimeError, OSError)
"""Errors that reading a malformed file can raise."""

State = list[list[str | int]]
"""Path, size and time of change (ns) of files."""


class Source:
    """A results folder and published runs. If both have a run, the one in the folder counts.

    Every run and the cells of every study are read and checked once, however many artefacts use them.
    """

    def __init__(self, results: Path, published: Path | None = None, seeds: Collection[int] = ()) -> None:
        """Read runs from ``results`` and, if given, from ``published``, which has one folder per tier.

        With ``seeds``, studies have only runs of these training seeds: their own, and runs of other studies with the
        settings of one of their runs.
        """
        self.results, self.seeds = results, sorted(seeds)
        self.published = {tier: PublishedRuns(published / tier) for tier in TIERS} if published else {}
        self._columns = {tier: PublishedColumns(runs) for tier, runs in self.published.items()}
        self._read: dict[str, Run | str] = {}
        self._read_cells: dict[tuple[str, str], list[dict[str, Any] | str]] = {}

    @property
    def label(self) -> str:
        """The folders of the runs, in words."""
        here = Path.cwd()
        folders = [runs.folder for runs in self.published.values() if runs.studies()]
        published = [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in folders]
        return " and ".join([str(self.results)] * self.results.exists() + published)

    def tiers(self) -> list[str]:
        """Return the tiers at which some study has runs, from smoke to paper."""
        present = {tier for _, tier in self.places()}
        return [tier for tier in TIERS if tier in present]

    def main_tier(self, tiers: Collection[str]) -> str:
        """Return the highest of some tiers at which blocks were trained, because of the declared claims.

        Without blocks it is the highest of all.
        """
        trained = [tier for study, tier in self.places() if study == "blocks" and tier in tiers]
        return max(trained or tiers, key=TIERS.index)

    def places(self) -> list[tuple[str, str]]:
        """Return study and tier of all cells: the newest of the results folder first, then published main studies."""
        folders = [path for path in (self.results / "studies").glob("*/*") if path.is_dir()]
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        published = [(name, tier) for tier, runs in self.published.items() for name in runs.studies()]
        published.sort(key=lambda place: not place[0].startswith("main_"))
        return [*((path.parent.name, path.name) for path in folders), *published]

    def study(
        self, name: str, tier: str, key: RowKey = METHOD, allow_mixed: bool = False, alike: Collection[str] = ()
    ) -> StudyRuns:
        """Return the runs that the study's cells point at and that may be compared.

        Runs of the studies ``alike`` with the settings of one of these runs, and another seed, are added. Incomplete,
        corrupt and malformed runs are never averaged; ``skipped`` names them.
        """
        study = StudyRuns(name, tier, key=key, trials=self.trials(tier), seeds=self.seeds)
        runs = {run.id: run for run in self._usable(study)}
        others = (run for other in alike for run in self._usable(StudyRuns(other, tier)))
        runs |= {run.id: run for run in _with_settings_of(runs.values(), others)}
        return select(study, runs.values(), allow_mixed)

    def trials(self, *tiers: str) -> tuple[Path, ...]:
        """Return the folders that may hold an Optuna database. If two have a study, the later one counts."""
        return (*(self.published[tier].folder for tier in tiers if tier in self.published), self.results)

    def all_of_study(self, name: str, tier: str) -> list[Run]:
        """Return the complete, intact runs that the study's cells point at, also runs that must not be compared."""
        return self._usable(StudyRuns(name, tier))

    def studies(self) -> list[str]:
        """Return the names of all studies that have cells."""
        return sorted({name for name, _ in self.places()})

    def _usable(self, study: StudyRuns) -> list[Run]:
        """Return the complete runs of a study. ``skipped`` gets the reasons for the others."""
        name, tier = study.name, study.tier
        identifiers, usable = set(), []
        for cell in self._cells(name, tier):
            if isinstance(cell, str):
                study.skipped.append(cell)
            else:
                identifiers.add(cell["run_id"])
        for run in (self.run(identifier, tier) for identifier in sorted(identifiers)):
            if isinstance(run, str):
                study.skipped.append(run)
            elif run.tier != tier:
                study.skipped.append(f"{run.path}: its tier is {run.tier}, not {tier}")
            else:
                usable.append(run)
        return self._of_seeds(usable, tier) if self.seeds else usable

    def _of_seeds(self, runs: list[Run], tier: str) -> list[Run]:
        """Return all runs of the wanted seeds that have the settings of one of ``runs``, whatever study they are of."""
        every = (run for run in self.runs() if run.tier == tier and run.seed in self.seeds)
        return sorted(_with_settings_of(runs, every), key=lambda run: run.id)

    def state(self, studies: Collection[str] | None, tier: str) -> list[Any]:
        """Return everything that the runs of studies at a tier depend on; for None, everything that all runs depend on.

        These are the cells, the digests of published archives, and the state of files in the results folder.
        """
        places = self.places() if studies is None else [(name, tier) for name in sorted(studies)]
        cells = [(*place, self._cells(*place)) for place in places]
        used = {str(cell["run_id"]) for *_, same in cells for cell in same if not isinstance(cell, str)}
        folder, every = self.results / "runs", studies is None or bool(self.seeds)
        files = folder.glob("*/*") if every else (path for run_id in used for path in (folder / run_id).glob("*"))
        archives = {run_id: sha for runs in self._columns.values() for run_id, sha in runs.archives.items()}
        shown = archives if every else {run_id: archives.get(run_id) for run_id in used}
        return [cells, sorted(shown.items()), state_of([*files, *(place / TRIALS for place in self.trials(*TIERS))])]

    def _cells(self, study: str, tier: str) -> list[dict[str, Any] | str]:
        """Return the study's cells, and a message for each that cannot be read."""
        if (study, tier) not in self._read_cells:
            self._read_cells[study, tier] = list(self._read_each_cell(study, tier))
        return self._read_cells[study, tier]

    def _read_each_cell(self, study: str, tier: str) -> Iterator[dict[str, Any] | str]:
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

    def run(self, identifier: str, tier: str, known: bool = False) -> Run | str:
        """Return the run, or a message that says why it cannot be used.

        The rows of a ``known`` run are not read until they are used: an earlier analysis has found them usable.
        """
        if identifier not in self._read:
            try:
                stored = self._stored(identifier, tier)
                run = Run(stored, self._is_published(identifier))
                if run.missing:
                    raise Corrupt(f"{run.path}: {run.missing_episodes}, so it has no success rate")
                if not known:  # read here, so that an odd value costs this run and not a whole table
                    run.passes()
                if not known and not isinstance(stored, ColumnRun):  # the store has numbers alone
                    _ = run.metrics
                self._read[identifier] = run
            except Corrupt as error:
                self._read[identifier] = str(error)
            except _ODD as error:  # its checksums are right, but another program wrote it
                folder = self.results / "runs" / identifier
                self._read[identifier] = f"{folder}: not a run of this bepo ({error!r:.200})"
        return self._read[identifier]

    def _stored(self, identifier: str, tier: str) -> StoredRun:
        folder = self.results / "runs" / identifier
        published = self.published.get(tier)
        if published and not (folder / RUN).exists() and published.archive(identifier).exists():
            return self._columns[tier].run(identifier)
        return read_run(folder)

    def _is_published(self, identifier: str) -> bool:
        return any(runs.archive(identifier).exists() for runs in self.published.values())

    def runs(self) -> Iterator[Run]:
        """Yield every complete, intact run once, in no particular order."""
        local = ((path.name, "") for path in sorted((self.results / "runs").glob("*")))
        published = ((run_id, tier) for tier, runs in self.published.items() for run_id in runs.ids())
        for identifier, tier in dict([*local, *published]).items():  # of both, ``run`` takes a complete local one
            run = self.run(identifier, tier)
            if isinstance(run, Run):
                yield run


def state_of(files: Iterable[Path]) -> State:
    """Return the state of those of the files that exist, in the order of their paths."""
    states: State = []
    for path in sorted(set(files)):
        with suppress(OSError):
            state = path.stat()
            states.append([str(path), state.st_size, state.st_mtime_ns])
    return states


def _with_settings_of(runs: Iterable[Run], others: Iterable[Run]) -> list[Run]:
    """Return those of ``others`` that have the settings of one of ``runs``; seeds may differ."""
    known = {run.fingerprint for run in runs}
    return [run for run in others if known and run.fingerprint in known]


def open_source(results: Path, source: str | None = None, seeds: Collection[int] = ()) -> Source:
    """Return the runs that ``source`` names.

    None: the results folder and the published runs. ``local``: only the results folder. ``published``: only the
    published runs. ``wandb:entity/project``: a W&B project, downloaded into a folder below the results folder. With
    ``seeds``, only runs of these training seeds count.
    """
    if source == "published":
        return Source(PUBLISHED / "no results folder", PUBLISHED, seeds)
    if source in (None, "local"):
        refuse_older(results)
        return Source(results, PUBLISHED if source is None else None, seeds)
    kind, _, project = source.partition(":")
    if kind != "wandb" or project.count("/") != 1:
        raise unknown_choice("source", source, ("local", "published", "wandb:ENTITY/PROJECT"))
    folder = results / "wandb" / project
    tracking.download(project, folder)
    return Source(folder, seeds=seeds)
