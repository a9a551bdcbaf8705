"""The runs that studies need: each of them once, however many cells share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError
from bepo.runs.config import Config, cell_overrides, identity_of
from bepo.store.cells import note_cell
from bepo.store.runs import Progress, RunFolder, read_run, run_id
from bepo.sweep.studies import Cell, PlannedStudy, compose_cells


@dataclass
class PlannedRun:
    """One training run, and the cells of studies that it is."""

    id: str
    config: Config
    device: str
    cells: list[Cell] = field(default_factory=list)
    obstacle: UserError | None = None  # why this machine cannot run it

    @property
    def folder(self) -> RunFolder:
        """The run's folder, which need not exist yet."""
        return RunFolder(Path(self.config.results), self.id)

    @property
    def log(self) -> Path:
        """The file that holds what the run prints."""
        return self.folder.path / "log.txt"

    @property
    def studies(self) -> list[str]:
        """The names of the studies that need the run, each once."""
        return list(dict.fromkeys(cell.study for cell in self.cells))

    @property
    def label(self) -> str:
        """The first cell's study, and what this cell varies in it."""
        return f"{self.cells[0].study}  {self.cells[0].label}"

    def progress(self) -> Progress:
        """Read how far the run is."""
        return self.folder.progress()

    def result(self) -> dict[str, Any]:
        """Read the result of a complete run. Raises ``Corrupt``."""
        return read_run(self.folder.path).facts["result"]


def plan_runs(studies: Sequence[PlannedStudy]) -> list[PlannedRun]:
    """Return every run that the studies need, each once, in the order of the studies. Raises ``UserError``."""
    return _runs([pair for study in studies for pair in study.configured])


def plan_cells(cells: Sequence[Cell]) -> list[PlannedRun]:
    """Return every run that the cells need, each once. Raises ``UserError`` for a cell that does not compose."""
    return _runs(list(zip(cells, compose_cells(cells))))


def note_cells(run: PlannedRun) -> None:
    """Point every cell of the run at it, in the results folder."""
    for cell in run.cells:
        note_cell(Path(run.config.results), cell.study, run.config.tier, cell_overrides(cell.overrides), run.id)


def _runs(configured: Sequence[tuple[Cell, Config]]) -> list[PlannedRun]:
    runs: dict[str, PlannedRun] = {}
    places: dict[str, tuple[str, UserError | None]] = {}  # asked once for all runs of a kind
    for cell, config in configured:
        kind = repr((config.backend, config.env, config.policy, config.tracking, config.tier))
        if kind not in places:
            places[kind] = _place(config)
        device, obstacle = places[kind]
        identifier = run_id(identity_of(config, device))
        runs.setdefault(identifier, PlannedRun(identifier, config, device, obstacle=obstacle)).cells.append(cell)
    return list(runs.values())


def _place(config: Config) -> tuple[str, UserError | None]:
    """Return the device of a run, which is part of its id, and why this machine cannot run it, or None.

    A plan needs neither the backend nor its device. Where the backend cannot say what ``auto`` is, it is the device
    that the tier is made for: a GPU at tier=paper.
    """
    try:
        device = config.backend.resolve()
    except UserError as error:
        default = "cuda" if config.tier == "paper" else "cpu"
        return default if config.backend.device == "auto" else config.backend.device, error
    missing = (part.missing() for part in (config.env, config.policy, config.tracking))
    return device, next((m for m in missing if m), None)
