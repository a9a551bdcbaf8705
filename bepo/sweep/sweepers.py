"""Which of Hydra's sweepers and launchers a sweep may name."""

from __future__ import annotations

from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf

from bepo.core.errors import unknown_choice

_SWEEPERS = {
    "hydra._internal.core_plugins.basic_sweeper.BasicSweeper": "hydra/sweeper=basic",
    "hydra_plugins.hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper": "hydra/sweeper=optuna",
}


def check_plugins(hydra: DictConfig) -> None:
    """Raise ``UserError`` for an unknown sweeper or launcher."""
    sweeper = target_of(hydra.sweeper)
    if sweeper not in _SWEEPERS:
        raise unknown_choice("sweeper", sweeper, _SWEEPERS.values())
    known = {f"{cls.__module__}.{cls.__name__}" for cls in Plugins.instance().discover(Launcher)}
    if (launcher := target_of(hydra.launcher)) not in known:
        raise unknown_choice("launcher", launcher, known)


def is_optuna(hydra: DictConfig) -> bool:
    """Return whether a sweep is an Optuna search."""
    return _SWEEPERS[target_of(hydra.sweeper)] == "hydra/sweeper=optuna"


def target_of(plugin: Any) -> str:
    """Return the class of a sweeper, launcher or sampler in a config, or the text in its place."""
    return str(plugin.get("_target_")) if OmegaConf.is_dict(plugin) else str(plugin)
