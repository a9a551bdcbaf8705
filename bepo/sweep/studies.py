"""Studies: the files of ``experiments/`` as Hydra composes them, and the cells of their sweeps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from bepo.core.errors import UserError, nearest, unknown_choice
from bepo.core.places import EXPERIMENTS
from bepo.core.plugins import plugin_folders
from bepo.runs.compose import CONFIG_ERRORS, explain, to_config
from bepo.runs.config import Config
from bepo.runs.texts import refuse_changed_texts, with_texts
from bepo.sweep.composition import composed
from bepo.sweep.space import grid, parse, with_first_presets
from bepo.sweep.sweepers import check_plugins, is_optuna

_MOST_SEEDS = 1000
_FIELDS = ("name", "question", "extension", "objectives", "seeds", "conditional", "pruner")


@dataclass
class Cell:
    """One point of a study's sweep."""

    study: str
    overrides: list[str]  # all overrides on top of the study's file
    varying: list[str]  # the overrides by which the study's cells differ

    @property
    def label(self) -> str:
        """The overrides by which the cell differs from the other cells, in one line."""
        return " ".join(self.varying)


@dataclass
class PlannedStudy:
    """A file of ``experiments/``, composed with the overrides of the command line."""

    name: str
    config: DictConfig  # with Hydra's own part, but without the sweep
    overrides: list[str]

    @property
    def is_tuning(self) -> bool:
        """Whether this is an Optuna study. Otherwise it is a grid."""
        return is_optuna(self.config.hydra)

    @cached_property
    def sweep(self) -> list[str]:
        """The overrides of Hydra's sweeper: the sweep of the study's file, then those of the command line."""
        params = self.config.hydra.sweeper.params or {}
        return with_texts([*(f"{key}={value}" for key, value in params.items()), *self.overrides])

    @property
    def objectives(self) -> list[str]:
        """The objectives of an Optuna study."""
        return list(self.config.study.objectives)

    @property
    def seeds(self) -> list[int]:
        """The training seeds of every trial of an Optuna study."""
        return list(self.config.study.seeds)

    @property
    def jobs(self) -> int:
        """The number of runs at a time in the study's launcher; -1: one per core."""
        return self.config.hydra.launcher.get("n_jobs") or -1

    def cells(self) -> list[Cell]:
        """Return every combination of the swept values. Raises ``UserError`` if they cannot be listed."""
        with config_errors(self.name, self.overrides):
            points = grid(self.sweep)
        shared = set(points[0]).intersection(*points) if len(points) > 1 else set()
        return [Cell(self.name, point, [o for o in point if o not in shared]) for point in points]

    @cached_property
    def configured(self) -> list[tuple[Cell, Config]]:
        """Every cell with its composed config. Raises ``UserError`` for a cell that does not compose."""
        cells = self.cells()
        return list(zip(cells, compose_cells(cells)))


def study_names() -> list[str]:
    """Return the names of all studies, in alphabetical order: those of bepo, and those of plug-ins."""
    return sorted({path.stem for folder in study_folders() for path in folder.glob("*.yaml")})


def study_folders() -> list[Path]:
    """Return the folders of studies: bepo's, and the folders ``experiments`` of plug-ins."""
    return [EXPERIMENTS, *plugin_folders("experiments")]


def _folder(name: str) -> Path:
    """Return the folder of a study; bepo's if no folder has it."""
    return next((folder for folder in study_folders() if (folder / f"{name}.yaml").exists()), EXPERIMENTS)


def studies_of_paper() -> list[str]:
    """Return the names of the paper's studies, in alphabetical order. Other studies say ``extension: true``."""
    names = sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))
    return [name for name in names if not _says(name).get("extension")]


def format_studies() -> str:
    """Return a line for each study: its name and its question."""
    names = study_names()
    width = max(map(len, names))
    return "\n".join(f"{name:{width}}  {_says(name).get('question', '')}".rstrip() for name in names)


def _says(name: str) -> dict[str, Any]:
    """Return the ``study`` part of a study's file without composing it; empty if the file is not valid YAML."""
    try:
        content = yaml.safe_load((_folder(name) / f"{name}.yaml").read_text(encoding="utf-8"))
    except yaml.YAMLError:  # reported when the study is composed
        return {}
    said = content.get("study") if isinstance(content, dict) else None
    return said if isinstance(said, dict) else {}


def compose_study(name: str, overrides: Sequence[str] = ()) -> PlannedStudy:
    """Compose a study. Raises ``UserError`` if it does not exist, or does not compose with ``overrides``.

    The override ``seeds=8`` replaces the training seeds of any study by 0 to 7, and ``seed=3,4`` by these.
    """
    if name not in study_names():
        raise unknown_choice("study", name, study_names())
    both = [o for o in overrides if o.startswith(("seed=", "seeds="))]
    if len({o.split("=")[0] for o in both}) > 1:
        raise UserError(f"{' '.join(both)}: both choose the training seeds; leave one of them out")
    overrides = with_texts([_seeds(o, name) for o in overrides])
    with config_errors(name, overrides):
        plain = with_first_presets(parse(overrides))
    # Presets of Hydra's own part may depend on the overrides.
    study = PlannedStudy(name, _compose(name, plain, hydra=True), list(overrides))
    with config_errors(name, overrides):
        _check_study(study)
    return study


def _check_study(study: PlannedStudy) -> None:
    """Raise ``UserError`` for an invalid ``study`` part or sweep of a study's file."""
    name, says = study.name, study.config.study
    check_plugins(study.config.hydra)
    path = _folder(name) / f"{name}.yaml"
    refuse_changed_texts(path.read_text(encoding="utf-8"), f"experiments/{path.name}")
    if (said := says.get("name")) != name:
        raise UserError(f"study.name={said} in experiments/{name}.yaml: must be the name of the file, {name}")
    if study.is_tuning and not all(OmegaConf.is_list(says.get(field)) for field in ("objectives", "seeds")):
        raise UserError("an Optuna study needs the lists study.objectives and study.seeds")
    for override in parse(study.sweep):
        if override.get_key_element() == "results" and override.is_sweep_override():
            raise UserError(f"{override.input_line}: cannot be swept, all runs of a study are in one folder")
    for key in _says(name):  # a file may have other entries for its interpolations, so only misspellings are refused
        if key not in _FIELDS and (meant := nearest(key, _FIELDS)):
            raise UserError(f"study.{key}: not a field of a study; choices: {', '.join(_FIELDS)}{meant}")
    for key, values in (study.config.hydra.sweeper.params or {}).items():
        if OmegaConf.is_list(values) and values and "." not in key:  # a field with a dot may be a list
            listed = ",".join(map(str, values))
            raise UserError(f"hydra.sweeper.params.{key}: separate values by commas, as in {key}: {listed}")


def _seeds(override: str, study: str) -> str:
    """Return ``seed=range(8)`` for ``seeds=8``; of an Optuna study ``study.seeds=[...]``, also for ``seed=3,4``."""
    if re.fullmatch(r"seed=\d+(,\d+)*", override) and "objectives" in _says(study):
        return f"study.seeds=[{override.removeprefix('seed=')}]"
    if not override.startswith("seeds="):
        return override
    number = override.removeprefix("seeds=")
    if not number.isdecimal() or not 1 <= int(number) <= _MOST_SEEDS:
        raise UserError(
            f"{override}: must be a number of training seeds from 1 to {_MOST_SEEDS}; seed=3,5 chooses single seeds"
        )
    if "objectives" not in _says(study):
        return f"seed=range({number})"
    return f"study.seeds=[{','.join(map(str, range(int(number))))}]"


def compose_cells(cells: Sequence[Cell]) -> list[Config]:
    """Return the config of every cell. Raises ``UserError`` for the first cell that does not compose.

    Cells that differ only by seed are composed once, unless other settings depend on the seed.
    """
    shared: dict[tuple[str, ...], Config | None] = {}  # by study and overrides without the seed
    configs = []
    for cell in tqdm(cells, "composing", unit="cell", delay=1, leave=False, disable=None):  # on a terminal only
        seeds = [o for o in cell.overrides if re.fullmatch(r"seed=\d+", o)]
        others = [o for o in cell.overrides if o not in seeds]
        key = cell.study, *others
        if key not in shared:
            composed = _compose(cell.study, others)
            shared[key] = None if _reads_seed(composed) else _config(cell.study, others, composed)
        config = shared[key] or _config(cell.study, cell.overrides, _compose(cell.study, cell.overrides))
        seed = int(seeds[-1].split("=")[1]) if seeds else config.seed
        configs.append(replace(config, seed=seed, progress=False))
    return configs


def _reads_seed(composed: DictConfig) -> bool:
    """Return whether a setting depends on a seed, as in ``${seed}``."""
    return re.search(r"\$\{[^}]*seed", str(OmegaConf.to_container(composed))) is not None


def _config(name: str, overrides: Sequence[str], composed: DictConfig) -> Config:
    with config_errors(name, overrides):
        return to_config(composed)


def _compose(name: str, overrides: Sequence[str], hydra: bool = False) -> DictConfig:
    with config_errors(name, overrides):
        return composed(_folder(name), name, overrides, hydra)


@contextmanager
def config_errors(name: str, overrides: Sequence[str]) -> Iterator[None]:
    """Turn errors of a study's config into a ``UserError`` of one line that begins with its name and overrides."""
    try:
        yield
    except CONFIG_ERRORS as error:
        begin, problem = f"{' '.join([name, *overrides])}: ", explain(error)
        raise UserError(f"{begin}{problem.removeprefix(begin)}") from error
