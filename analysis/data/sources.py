"""Where runs come from: a results folder, or a W&B project, which is brought into the same form first."""

from pathlib import Path

from analysis.data.runs import METHOD, TIERS, RowKey, Run, StudyRuns, select
from bepo.core.errors import UserError
from bepo.store import tracking
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt
from bepo.store.stored import read_run, refuse_older


class Source:
    """A results folder. Every run is read and checked once, however many artefacts use it."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._read: dict[str, Run | str] = {}

    def tiers(self) -> list[str]:
        """Return the tiers that some study has runs at, from the least to the most meaningful."""
        present = {path.name for path in (self.results / "studies").glob("*/*") if path.is_dir()}
        return [tier for tier in TIERS if tier in present]

    def study(self, name: str, tier: str, key: RowKey = METHOD, allow_mixed: bool = False) -> StudyRuns:
        """Return the runs that the study's cells point at and that may be compared.

        Incomplete, corrupt and foreign runs are named in ``skipped``, and never averaged.
        """
        study = StudyRuns(name, tier, key=key, results=self.results)
        identifiers, usable = set(), []
        for cell in sorted((self.results / "studies" / name / tier).glob("*.json")):
            try:
                identifiers.add(read_cell(cell)["run_id"])
            except Corrupt as error:
                study.skipped.append(str(error))
        for run in map(self.run, sorted(identifiers)):
            if isinstance(run, str):
                study.skipped.append(run)
            elif run.tier != tier:
                study.skipped.append(f"{run.path}: its tier is {run.tier}, not {tier}")
            else:
                usable.append(run)
        return select(study, usable, allow_mixed)

    def run(self, identifier: str) -> Run | str:
        """Return the run, or why it cannot be used."""
        if identifier not in self._read:
            try:
                self._read[identifier] = run = Run(read_run(self.results / "runs" / identifier))
                run.passes()
            except Corrupt as error:
                self._read[identifier] = str(error)
        return self._read[identifier]


def open_source(results: Path, source: str | None = None) -> Source:
    """Return the results folder, or that of ``wandb:entity/project``, which is downloaded into a folder below it."""
    if source is None:
        refuse_older(results)
        return Source(results)
    kind, _, project = source.partition(":")
    if kind != "wandb" or project.count("/") != 1:
        raise UserError(f"source {source!r}: must be wandb:ENTITY/PROJECT")
    folder = results / "wandb" / project
    tracking.download(project, folder)
    return Source(folder)
