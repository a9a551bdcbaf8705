"""The plan of a sweep: the runs that studies need, each once, however many cells share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.store.cells import note_cell
from bepo.store.published import PUBLISHED, PublishedRuns
from bepo.store.run_files import read_run
from bepo.store.runs import Progress, RunFolder, run_id
from bepo.sweep.studies import Cell, PlannedStudy, compose_cells


@dataclass
class PlannedRun:
    """One run, and the study cells that point at it."""

    id: str
    config: Config
    cells: list[Cell] = field(default_factory=list)
    obstacle: UserError | None = None  # why this machine cannot run it

    @property
    def folder(self) -> RunFolder:
        """The folder of the run. It may not exist yet."""
        return RunFolder(Path(self.config.results), self.id)

    @property
    def log(self) -> Path:
        """The file that holds what the run prints."""
        return self.folder.path / "log.txt"

    @property
    def is_published(self) -> bool:
        """Whether the run is among the published runs."""
        return PublishedRuns(PUBLISHED / self.config.tier).archive(self.id).exists()

    @property
    def studies(self) -> list[str]:
        """The names of the studies that need the run, each once."""
        return list(dict.fromkeys(cell.study for cell in self.cells))

    @property
    def label(self) -> str:
        """The study of the first cell, and the overrides of this cell."""
        return f"{self.cells[0].study}  {self.cells[0].label}"

    def progress(self, *, hashed: bool = True) -> Progress:
        """Read the progress of the run. ``hashed``: whether to check the digests of all files of a complete run."""
        return self.folder.progress(hashed=hashed)

    def result(self) -> dict[str, Any]:
        """Read the result of a complete run. Raises ``Corrupt``."""
        return read_run(self.folder.path).metadata["result"]


def plan_runs(studies: Sequence[PlannedStudy]) -> list[PlannedRun]:
    """Return every run that the studies need, each once, in the order of the studies. Raises ``UserError``."""
    return _runs([pair for study in studies for pair in study.configured])


def plan_cells(cells: Sequence[Cell]) -> list[PlannedRun]:
    """Return every run that the cells need, each once. Raises ``UserError`` for a cell that does not compose."""
    return _runs(list(zip(cells, compose_cells(cells))))


def note_cells(run: PlannedRun) -> None:
    """Point every cell of the run at it, in the results folder."""
    for cell in run.cells:
        overrides = cell_overrides(run.config, cell.overrides)
        note_cell(Path(run.config.results), cell.study, run.config.tier, overrides, run.id, cell.varying)


def same_trainings(runs: Sequence[PlannedRun]) -> list[str]:
    """Return a line for each difference between runs that has no effect, as the estimator says, with the reason.

    Such runs have different IDs, but every update of one is that of the other.
    """
    alike: dict[str, list[PlannedRun]] = {}
    for run in (run for run in runs if not run.config.is_evaluation):
        parts, idle = identity_of(run.config), run.config.credit.without_effect()
        credit = {name: value for name, value in parts["credit"].items() if name not in idle}
        alike.setdefault(repr({**parts, "credit": credit}), []).append(run)
    lines = []
    for same in (same for same in alike.values() if len(same) > 1):
        reasons = {name: why for run in same for name, why in run.config.credit.without_effect().items()}
        for name, why in reasons.items():
            values = dict.fromkeys(str(getattr(run.config.credit, name)) for run in same)
            if len(values) > 1:
                lines.append(f"credit.{name}={' and '.join(values)} train the same: {why}")
    return list(dict.fromkeys(lines))


def _runs(configured: Sequence[tuple[Cell, Config]]) -> list[PlannedRun]:
    runs: dict[str, PlannedRun] = {}
    obstacles: dict[str, UserError | None] = {}  # computed once for all runs of a kind
    for cell, config in configured:
        kind = repr((config.backend, config.env, config.policy, config.tracking, config.tier))
        if kind not in obstacles:
            obstacles[kind] = _obstacle(config)
        identifier = run_id(identity_of(config))
        runs.setdefault(identifier, PlannedRun(identifier, config, obstacle=obstacles[kind])).cells.append(cell)
    return list(runs.values())


def _obstacle(config: Config) -> UserError | None:
    """Return why this machine cannot train a run, or None."""
    if config.backend.missing():  # fast: ``resolve`` may import torch
        try:
            config.backend.resolve()
        except UserError as error:
            return error
    missing = (part.missing() for part in (config.env, config.policy, config.tracking))
    return next((m for m in missing if m), None)
