"""Hydra learns here what a config may be made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bepo.core.errors import UserError, choose
from bepo.runs.config import PLUGINS, Config


def register_configs() -> None:
    """Hand the schema and every plug-in's dataclass to Hydra, so that a new file is a new choice."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config, replace=True)
    for group, plugins in PLUGINS.items():
        for name, cls in plugins().items():
            store.store(group=group, name=name, node=cls, replace=True)


def config_of(stored: dict[str, Any]) -> Config:
    """Return the config that a run's ``config.json`` holds; a field that was added since has its default.

    Raises ``UserError`` if this bepo does not know one of its parts or fields.
    """
    schema = OmegaConf.structured(Config)
    for group, plugins in PLUGINS.items():
        name, known = stored.get(group, {}).get("name"), plugins()
        if name not in known:
            raise choose(group, name, known)
        schema[group] = OmegaConf.structured(known[name])
    try:
        return cast(Config, OmegaConf.to_object(OmegaConf.merge(schema, stored)))
    except OmegaConfBaseException as error:
        raise UserError(str(error).splitlines()[0]) from None


def with_fields(config: Config, overrides: Sequence[str]) -> Config:
    """Return a config with other values of single fields, ``evaluation.tasks=16``. Raises ``UserError``."""
    try:
        changes = OmegaConf.from_dotlist([override.lstrip("+") for override in overrides])
        return cast(Config, OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(config), changes)))
    except OmegaConfBaseException as error:
        raise UserError(str(error).splitlines()[0]) from None
