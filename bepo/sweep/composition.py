"""Configs of studies, composed by Hydra and cached on disk.

Hydra needs 0.2 seconds for a config, and a sweep has hundreds of them. Therefore Hydra composes each choice of presets
once, and the values of single fields are set in a copy. What Hydra composed is kept (``bepo.store.cache``) under a
digest of everything that a config depends on: config files, sources and versions.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import get_type_hints

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.core.plugins import imported_plugins, plugin_folders
from bepo.runs.compose import CONFIG_ERRORS
from bepo.runs.config import Config
from bepo.runs.texts import with_texts
from bepo.store.cache import load, save
from bepo.store.files import digest

_PACKAGE = Path(__file__).parents[1]
_PACKAGES = ("hydra-core", "hydra-joblib-launcher", "hydra-optuna-sweeper", "omegaconf", "PyYAML")
_FIELDS = get_type_hints(Config)
_OF_SWEEPS = ("hydra.sweeper.", "hydra.launcher.")


def composed(experiments: Path, name: str, overrides: Sequence[str], hydra: bool = False) -> DictConfig:
    """Return the config of a study as ``compose_with_hydra`` does, from the cache if it is there."""
    if any("searchpath" in o for o in overrides):
        return compose_with_hydra(experiments, name, overrides, hydra)
    values = _values(experiments, overrides, hydra)
    lines = [value.input_line for value in values]
    config = _cached(experiments, name, [o for o in overrides if o not in lines], hydra)
    try:
        for value in values:
            OmegaConf.update(config, value.key_or_group, value.value(), merge=True)
    except (HydraException, OmegaConfBaseException):  # Hydra's own message names the override
        return compose_with_hydra(experiments, name, overrides, hydra)
    if hydra and values:
        noted = config.hydra.overrides
        noted.hydra, noted.task = ([o for o in overrides if _is_hydras(o) == of_hydra] for of_hydra in (True, False))
    return config


def _values(experiments: Path, overrides: Sequence[str], hydra: bool) -> list[Override]:
    """Return the overrides that give a field of the config a value, which changes nothing else in a composition.

    Empty if the overrides have to be applied in their order, because one of them adds, deletes or sweeps.
    """
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    if any(o.type is not OverrideType.CHANGE or o.is_sweep_override() for o in parsed):
        return []
    folders = [experiments, CONF, *plugin_folders("conf")]
    groups = [o for o in parsed if any((folder / o.key_or_group).is_dir() for folder in folders)]
    return [
        o for o in parsed if o not in groups and (_is_field(o) or (hydra and o.key_or_group.startswith(_OF_SWEEPS)))
    ]


def _is_field(override: Override) -> bool:
    """Return whether the key is a field of the config or of a part of it, not a group of presets or Hydra's."""
    part, _, field = override.key_or_group.partition(".")
    known = part in _FIELDS and "/" not in override.key_or_group and override.package is None
    return known and (bool(field) or _FIELDS[part] in (int, bool, str))


def _is_hydras(override: str) -> bool:
    return override.startswith(("hydra.", "hydra/"))


def _cached(experiments: Path, name: str, overrides: Sequence[str], hydra: bool) -> DictConfig:
    """Return the config of a study from the cache, to which it is added if it is not there."""
    sources = _sources(experiments)
    key = (sources, name, *overrides, hydra, imported_plugins())
    if data := load("configs", key):
        return pickle.loads(data)
    config = compose_with_hydra(experiments, name, overrides, hydra)
    if sources == _digest(experiments):  # no file changed in between
        save("configs", key, pickle.dumps(config))
    return config


def compose_with_hydra(experiments: Path, name: str, overrides: Sequence[str], hydra: bool = False) -> DictConfig:
    """Return the config of a study with overrides as Hydra composes it; ``hydra``: with Hydra's own part."""
    running = GlobalHydra.instance()  # of a multirun, which Hydra would refuse to nest
    main, running.hydra = running.hydra, None
    try:
        with initialize_config_dir(str(experiments)):
            return compose(name, with_texts(overrides), return_hydra_config=hydra)
    except CONFIG_ERRORS:
        raise
    except ValueError as error:  # raised by Hydra for a choice that is not a name, such as env=null
        raise UserError(str(error)) from error
    finally:
        GlobalHydra.instance().hydra = main


def _digest(experiments: Path) -> str:
    """Return a digest of everything that configs depend on beside their overrides."""
    files = [*experiments.glob("*.yaml"), *CONF.rglob("*.yaml"), *_PACKAGE.rglob("*.py")]
    contents = [(str(file), digest(file.read_bytes())) for file in sorted(files)]
    return digest(repr((contents, sys.version, *map(version, _PACKAGES))), 32)


_sources = cache(_digest)
"""The digest as it was when the process first asked for it."""
