"""Configs between Hydra and the dataclasses: register the schema, convert, and explain errors in one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra_plugins.hydra_optuna_sweeper.config import OptunaSweeperConf
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from bepo.core.errors import UserError, exit_code, nearest, unknown_choice
from bepo.core.places import CONF
from bepo.core.plugins import plugin_folders, use_plugins
from bepo.core.settings import Settings
from bepo.runs.config import PLUGINS, Config
from bepo.runs.texts import with_texts
from bepo.runs.trials_database import database_url, search_name

_ADVICE = r"Config search path|\.?\nTo append|\n    (full_key|object_type)|\nSee http|\nYou may|\nCheck that"
"""Matches the advice that follows the problem in messages of Hydra and OmegaConf."""
CONFIG_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError, UserError)
"""The errors of a wrong config."""
_stored: dict[tuple[str, str], type] = {}
"""The plug-ins that Hydra's store has, by group and name."""


def register_configs() -> None:
    """Register the schema and the dataclass of every plug-in with Hydra, so that a new file is a new choice.

    Also import the plug-ins that ``plugins=`` names on the command line, and register
    ``${trials_database:FOLDER}``, the URL of the Optuna trials of a results folder, and ``${search_name:}``, the study
    of a search. Commands call this at import. Exits
    with one line about a plug-in that cannot be registered.
    """
    if code := exit_code(lambda: register(sys.argv[1:])):
        sys.exit(code)


class Presets(SearchPathPlugin):
    """Lets Hydra find presets in ``conf/``, also for studies of other folders, and in the ``conf/`` of plug-ins."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders, after that of the main config."""
        for folder in (CONF, *plugin_folders("conf")):
            search_path.append("bepo", f"file://{folder}")


def register(overrides: Sequence[str]) -> None:
    """Import the plug-ins that overrides name, and register every plug-in with Hydra. Raises ``UserError``."""
    use_plugins(overrides)
    Plugins.instance().register(Presets)
    OmegaConf.register_resolver("trials_database", database_url, replace=True)
    OmegaConf.register_resolver("search_name", search_name, replace=True)
    store = ConfigStore.instance()
    store.store(group="hydra/sweeper", name="optuna_fields", node=OptunaSweeperConf, replace=True)
    store.store(name="schema", node=Config, replace=True)
    for group, plugins in PLUGINS.items():
        presets = {
            path.stem: path for folder in (CONF, *plugin_folders("conf")) for path in folder.glob(f"{group}/*.yaml")
        }
        for name, cls in plugins().items():
            if name in presets:  # Hydra would take the preset
                raise UserError(f"{cls.__module__}.{cls.__qualname__}: name {name!r} is taken by {presets[name]}")
            if _stored.get((group, name)) is not cls:  # storing all of them takes 0.2 seconds
                store.store(group=group, name=name, node=cls, replace=True)
                _stored[group, name] = cls


def explain(error: BaseException) -> str:
    """Return the fault of a config in one line, without Hydra's advice but with OmegaConf's cause."""
    if problem := _set_by_preset(error):
        return problem
    problem = re.split(_ADVICE, str(error))[0]
    if isinstance(cause := error.__cause__, OmegaConfBaseException | HydraException):
        problem += f": {str(cause).splitlines()[0]}{_fields_instead(cause)}"
    key = getattr(error, "full_key", None)
    problem = _suggested(" ".join(problem.split()))
    return f"{key}: {problem}" if key and str(key) not in problem else problem


def _set_by_preset(error: BaseException) -> str:
    """Return the field that a preset sets but the chosen plug-in lacks; empty for another error."""
    preset, unknown = re.match("In '([^']+)': ", str(error)), error.__context__
    if preset is None or not isinstance(unknown, ConfigKeyError | ConfigAttributeError):
        return ""
    chosen: Any = unknown.object_type
    if (group := getattr(chosen, "group", "")) not in PLUGINS:
        return ""
    owners = [name for name, cls in PLUGINS[group]().items() if unknown.key in {item.name for item in fields(cls)}]
    if not owners:
        return ""  # a misspelt field: OmegaConf suggests the right one
    problem = f"preset {preset[1]} sets {group}.{unknown.key}, which {group}={chosen.name} does not have"
    return f"{problem}; choices of {group}: {', '.join(owners)}"


def _fields_instead(error: BaseException) -> str:
    """Return the fields of the plug-in or group without this key, unless OmegaConf already suggests one."""
    if not isinstance(error, ConfigKeyError | ConfigAttributeError):
        return ""
    kind = error.object_type
    if kind is None or not is_dataclass(kind):
        return ""
    names = [field.name for field in fields(kind)]
    return "" if "Did you mean" in str(error) else f"; choices: {', '.join(names)}{nearest(error.key, names)}"


def _suggested(problem: str) -> str:
    """Add the nearest choice to Hydra's message about an unknown choice, and how to add a new key."""
    if unknown := re.search(r"Could not find '(?:([^']+)/)?([^'/]+)'( Available options in '[^']*':) (.*)", problem):
        group, value, options = unknown[1], unknown[2], unknown[4].split(" ")
        module = PLUGINS[group].unregistered(value) if group in PLUGINS else None
        forgot = f"; {module} does not register its class: write @register above it" if module else ""
        return f"{problem[: unknown.start(3)]}; choices: {', '.join(options)}{nearest(value, options)}{forgot}"
    if unknown := re.search(r"Invalid value '([^']*)', expected one of \[(.*)\]", problem):
        return problem + nearest(unknown[1], re.findall(r"'([^']*)'", unknown[2]))
    if added := re.search(r"Could not override '([^']*)': Key '[^']*' is not in struct", problem):
        return f"{problem}; +{added[1]}=VALUE adds it"
    return problem


def to_config(composed: DictConfig) -> Config:
    """Return a composed config as dataclasses.

    Raises ``UserError`` for an unknown key or a missing part, and OmegaConf's errors for wrong values.
    """
    _refuse_unknown(composed)
    config = OmegaConf.to_object(composed)
    if not isinstance(config, Config):
        raise UserError(f"not the config of a run, but {type(config).__name__}: its defaults must name train")
    for group, plugins in PLUGINS.items():
        if not isinstance(part := vars(config)[group], Settings):
            raise unknown_choice(group, part, plugins())
    for name in ("agent", "rollout", "training", "evaluation", "tracking"):
        if not isinstance(part := vars(config)[name], Settings):
            raise UserError(f"{name}={part}: must be settings, such as {name}.FIELD=VALUE")
    return config


def _refuse_unknown(node: DictConfig, path: str = "") -> None:
    """Raise ``UserError`` for a key that is not a field. OmegaConf would set it as an attribute of the object."""
    kind = OmegaConf.get_type(node)
    if kind is None or not is_dataclass(kind):
        return  # a free dictionary, such as policy.extra
    known = [item.name for item in fields(kind)]
    for name in map(str, node):
        if name not in known:
            raise unknown_choice("setting", f"{path}{name}", (f"{path}{field}" for field in known))
        part = None if OmegaConf.is_missing(node, name) or OmegaConf.is_interpolation(node, name) else node[name]
        if isinstance(part, DictConfig):
            _refuse_unknown(part, f"{path}{name}.")


def config_of(stored: dict[str, Any]) -> Config:
    """Return the config in a run's ``config.json``. Fields that are newer than the run have their defaults.

    Raises ``UserError`` if this version of bepo does not know one of its parts or fields.
    """
    chosen: list[type] = []
    for group, plugins in PLUGINS.items():
        name, known = stored.get(group, {}).get("name"), plugins()
        if name not in known:
            plugins = f"; the run had plugins={stored['plugins']}" if stored.get("plugins") else ""
            raise UserError(f"{unknown_choice(group, name, known)}{plugins}")
        chosen.append(known[name])
    try:
        return to_config(cast(DictConfig, OmegaConf.merge(_schema(*chosen), stored)))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None


@cache
def _schema(*chosen: type) -> DictConfig:
    """Return the types and defaults of a config with one plug-in for each group; do not change it."""
    schema = OmegaConf.structured(Config)
    for group, cls in zip(PLUGINS, chosen, strict=True):
        schema[group] = OmegaConf.structured(cls)
    return schema


def with_fields(config: Config, overrides: Sequence[str]) -> Config:
    """Return a config with some fields changed, as in ``evaluation.tasks=16``. Raises ``UserError``."""
    try:
        changes = OmegaConf.create()
        for override in OverridesParser.create().parse_overrides([o.lstrip("+") for o in with_texts(overrides)]):
            OmegaConf.update(changes, override.key_or_group, override.value())
        return to_config(cast(DictConfig, OmegaConf.merge(OmegaConf.structured(config), changes)))
    except (OmegaConfBaseException, HydraException) as error:
        raise UserError(explain(error)) from None
