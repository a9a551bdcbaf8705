"""Where records come from: a results folder, or a W&B project, which is brought into the same form first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.runs import METHOD, TIERS, Key, Run, Study, select
from bepo import record, tracking
from bepo.errors import UserError


class Source:
    """A results folder. Every record is read and checked once, however many artefacts use it."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._read: dict[str, Run | str] = {}

    def scales(self) -> list[str]:
        """Tiers that some study has runs at, from the least to the most meaningful."""
        present = {p.name for p in (self.results / "studies").glob("*/*") if p.is_dir()}
        return [t for t in TIERS if t in present]

    def study(self, name: str, scale: str, key: Key = METHOD, allow_mixed: bool = False) -> Study:
        """The runs that the study's cells point at and that may stand together; incomplete, corrupt and foreign ones
        are named, never averaged."""
        study = Study(name, scale, key=key, results=self.results)
        found = []
        for identifier in sorted(set(self._members(name, scale, study.skipped))):
            run = self.run(identifier)
            if isinstance(run, str):
                study.skipped.append(run)
            elif run.scale != scale:
                study.skipped.append(f"{run.path}: its tier is {run.scale}, not {scale}")
            else:
                found.append(run)
        return select(study, found, allow_mixed)

    def run(self, identifier: str) -> Run | str:
        """The run, or why it cannot be used."""
        if identifier not in self._read:
            try:
                run = Run(record.read(self.results / "runs" / identifier))
                run.passes()
                self._read[identifier] = run
            except record.CorruptRecord as error:
                self._read[identifier] = str(error)
        return self._read[identifier]

    def _members(self, name: str, scale: str, skipped: list[str]) -> Iterator[str]:
        for cell in sorted((self.results / "studies" / name / scale).glob("*.json")):
            try:
                yield record.read_cell(cell)["run_id"]
            except record.CorruptRecord as error:
                skipped.append(str(error))


def opened(results: Path, source: str | None = None) -> Source:
    """The results folder; or ``wandb:entity/project``, kept in a folder of its own under ``results``."""
    if source is None:
        return Source(results)
    kind, _, project = source.partition(":")
    if kind != "wandb" or project.count("/") != 1:
        raise UserError(f"source {source!r}: must be wandb:ENTITY/PROJECT")
    folder = results / "wandb" / project
    tracking.download(project, folder)
    return Source(folder)
