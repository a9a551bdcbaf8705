"""The cells of studies, as Hydra composes them, and where each of them stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from bepo import record
from bepo.config import Config, cell_overrides, identity_of
from bepo.errors import UserError, choose

ROOT = Path(__file__).parent.parent.parent
EXPERIMENTS, CONF = ROOT / "experiments", ROOT / "conf"


@dataclass
class Run:
    """One training run, and the studies whose cells it is."""

    id: str
    config: Config
    device: str
    cells: list[Cell] = field(default_factory=list)
    obstacle: UserError | None = None  # why this machine cannot run it

    @property
    def folder(self) -> record.RunFolder:
        return record.RunFolder(Path(self.config.results), self.id)

    @property
    def log(self) -> Path:
        return self.folder.path / "log.txt"

    @property
    def studies(self) -> list[str]:
        return list(dict.fromkeys(cell.study for cell in self.cells))

    @property
    def label(self) -> str:
        return f"{self.cells[0].study}  {self.cells[0].label}"

    def progress(self) -> record.Progress:
        return self.folder.progress()

    def result(self) -> dict[str, Any]:
        """Of a complete run. Raises ``CorruptRecord``."""
        return record.read(self.folder.path).facts["result"]


@dataclass
class Cell:
    """One point of a study's sweep."""

    study: str
    overrides: list[str]  # all that were composed
    varying: list[str]  # those by which the study's cells differ

    @property
    def label(self) -> str:
        return " ".join(self.varying)


@dataclass
class Study:
    """An experiment file, composed: ``swept`` is what Hydra's sweeper would be given."""

    name: str
    config: DictConfig
    overrides: list[str]

    @property
    def is_tuning(self) -> bool:
        return "optuna" in self.config.hydra.sweeper._target_

    @cached_property
    def swept(self) -> list[str]:
        params = self.config.hydra.sweeper.params or {}
        return [f"{key}={value}" for key, value in params.items()]

    @property
    def jobs(self) -> int:
        """Runs at a time that the study's launcher asks for; -1 for one a core."""
        return self.config.hydra.launcher.get("n_jobs") or -1

    def cells(self) -> list[Cell]:
        """Every combination, in Hydra's own order; an override of a swept key replaces its sweep."""
        parsed = OverridesParser.create().parse_overrides([*self.swept, *self.overrides])
        (points,) = BasicSweeper.split_arguments(parsed, None)
        fixed = set(points[0]).intersection(*points) if len(points) > 1 else set()
        return [Cell(self.name, point, [o for o in point if o not in fixed]) for point in points]

    @cached_property
    def configured(self) -> list[tuple[Cell, Config]]:
        """Every cell, composed. Raises ``UserError`` naming one that does not compose."""
        cells = self.cells()
        return list(zip(cells, configs(cells)))


def names() -> list[str]:
    return sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))


def study(name: str, overrides: Sequence[str] = ()) -> Study:
    """Raises ``UserError`` for a study that does not exist, or that does not compose with ``overrides``."""
    if name not in names():
        raise choose("study", name, names())
    # Sweeps are not composed here, but for the keys that a preset of Hydra's own may depend on.
    with errors_named(name, overrides):
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    plain = [o.input_line for o in parsed if not o.is_sweep_override()]
    return Study(name, _compose(name, plain, hydra=True), list(overrides))


def runs(studies: Sequence[Study]) -> list[Run]:
    """Every run that the studies need, each once, in the order of the studies."""
    return _runs([pair for item in studies for pair in item.configured])


def runs_of(cells: Sequence[Cell]) -> list[Run]:
    """Every run that the cells need, each once."""
    return _runs(list(zip(cells, configs(cells))))


def _runs(configured: Sequence[tuple[Cell, Config]]) -> list[Run]:
    found: dict[str, Run] = {}
    places: dict[str, tuple[str, UserError | None]] = {}
    for cell, config in configured:
        kind = repr((config.backend, config.env, config.policy, config.tracking, config.scale))
        if kind not in places:
            places[kind] = _place(config)
        device, obstacle = places[kind]
        identifier = record.run_id(identity_of(config, device))
        found.setdefault(identifier, Run(identifier, config, device, obstacle=obstacle)).cells.append(cell)
    return list(found.values())


def _place(config: Config) -> tuple[str, UserError | None]:
    """The device of a run, which is part of its id, and why this machine cannot run it: a plan needs neither.

    Without the backend, ``auto`` is what the tier is made for: a GPU at scale=paper.
    """
    try:
        device = config.backend.resolve()
    except UserError as error:
        meant = "cuda" if config.scale == "paper" else "cpu"
        return meant if config.backend.device == "auto" else config.backend.device, error
    parts = (config.env, config.policy, config.tracking)
    missing = (part.missing() for part in parts if hasattr(part, "missing"))
    return device, next((m for m in missing if m), None)


def note(run: Run) -> None:
    """Point every study's cell at this run."""
    for cell in run.cells:
        record.note_cell(Path(run.config.results), cell.study, run.config.scale, cell_overrides(cell.overrides), run.id)


def configs(cells: Sequence[Cell]) -> list[Config]:
    """Composing takes a tenth of a second, so cells that differ by seed only are composed once."""
    composed: dict[tuple[str, ...], Config] = {}  # a study and overrides
    out = []
    for cell in cells:
        rest, seeds = [], []
        for override in cell.overrides:
            (seeds if re.fullmatch(r"seed=\d+", override) else rest).append(override)
        key = cell.study, *rest
        if key not in composed:
            composed[key] = replace(_object(cell.study, rest), progress=False)
        config = composed[key]
        out.append(replace(config, seed=int(seeds[-1].split("=")[1])) if seeds else config)
    return out


def _object(name: str, overrides: Sequence[str]) -> Config:
    config = _compose(name, overrides)
    with errors_named(name, overrides):
        return OmegaConf.to_object(config)


def _compose(name: str, overrides: Sequence[str], hydra: bool = False) -> DictConfig:
    search = f"hydra.searchpath=[file://{CONF}]"
    with errors_named(name, overrides), initialize_config_dir(str(EXPERIMENTS)):
        return compose(name, [*overrides, search], return_hydra_config=hydra)


@contextmanager
def errors_named(name: str, overrides: Sequence[str]) -> Iterator[None]:
    """What is wrong with a config, as a ``UserError`` of one line: without Hydra's advice, with OmegaConf's cause."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError, UserError) as error:
        said = re.split(r"Config search path|\.?\nTo append|\n    full_key|\nSee http", str(error))[0]
        if isinstance(error.__cause__, OmegaConfBaseException):
            said += f": {str(error.__cause__).splitlines()[0]}"
        raise UserError(f"{' '.join([name, *overrides])}: {' '.join(said.split())}") from error
