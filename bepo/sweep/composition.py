"""Configs of studies, composed by Hydra and cached on disk.

Hydra needs 0.2 seconds for a config, and a sweep has hundreds of them. Therefore Hydra composes each choice of presets
once, and the values of single fields are set in a copy. The cache is ``$BEPO_CACHE/configs`` (default:
``~/.cache/bepo/configs``). Each folder in it is named after a digest of everything that a config depends on: config
files, sources and versions. Folders that were not used for 30 days are removed.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
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
from bepo.core.places import CONF, cache_folder
from bepo.core.plugins import imported_plugins, plugin_folders
from bepo.runs.compose import CONFIG_ERRORS
from bepo.runs.config import Config
from bepo.runs.texts import with_texts
from bepo.store.files import DiskFull, digest, write_atomically

_PACKAGE = Path(__file__).parents[1]
_PACKAGES = ("hydra-core", "hydra-joblib-launcher", "hydra-optuna-sweeper", "omegaconf", "PyYAML")
_FIELDS = get_type_hints(Config)
_OF_SWEEPS = ("hydra.sweeper.", "hydra.launcher.")
_MOST_SECONDS = 30 * 24 * 3600.0


def composed(experiments: Path, name: str, overrides: Sequence[str], hydra: bool = False) -> DictConfig:
    """Return the config of a study as ``compose_with_hydra`` does, from the cache if it is there."""
    folder = None if any("searchpath" in o for o in overrides) else _cache_folder(experiments)
    if folder is None:
        return compose_with_hydra(experiments, name, overrides, hydra)
    values = _values(experiments, overrides, hydra)
    lines = [value.input_line for value in values]
    config = _cached(folder, experiments, name, [o for o in overrides if o not in lines], hydra)
    try:
        for value in values:
            OmegaConf.update(config, value.key_or_group, value.value(), merge=True)
    except (HydraException, OmegaConfBaseException):  # Hydra's own message names the override
        return compose_with_hydra(experiments, name, overrides, hydra)
    if hydra and values:
        noted = config.hydra.overrides
        noted.hydra, noted.task = ([o for o in overrides if _is_hydras(o) == own] for own in (True, False))
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


def _cached(folder: Path, experiments: Path, name: str, overrides: Sequence[str], hydra: bool) -> DictConfig:
    """Return the config of a study from the folder of the cache, to which it is added if it is not there."""
    path = folder / digest(repr((name, *overrides, hydra, imported_plugins())), 32)
    try:
        checksum, data = path.read_bytes().split(b"\n", 1)
        if digest(data).encode() == checksum:
            return pickle.loads(data)
    except (OSError, ValueError):  # not cached, or damaged
        pass
    config = compose_with_hydra(experiments, name, overrides, hydra)
    if folder.name == _digest(experiments):  # no file changed in between
        data = pickle.dumps(config)
        with suppress(OSError, DiskFull):  # a full disk costs a little time
            write_atomically(path, digest(data).encode() + b"\n" + data)
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


@cache
def _cache_folder(experiments: Path) -> Path | None:
    """Return the folder of the present sources, and remove old ones; None if it cannot be used.

    Reading a pickle can run code, so a folder that other users can write is refused.
    """
    root = cache_folder("configs")
    folder = root / _digest(experiments)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
        for other in root.iterdir():
            if time.time() - other.stat().st_mtime > _MOST_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
        state = folder.stat()
    except OSError:
        return None
    return folder if state.st_uid == os.getuid() and not state.st_mode & 0o022 else None


def _digest(experiments: Path) -> str:
    """Return a digest of everything that configs depend on beside their overrides."""
    files = [*experiments.glob("*.yaml"), *CONF.rglob("*.yaml"), *_PACKAGE.rglob("*.py")]
    contents = [(str(file), digest(file.read_bytes())) for file in sorted(files)]
    return digest(repr((contents, sys.version, *map(version, _PACKAGES))), 32)
