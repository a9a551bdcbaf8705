"""The choices of every setting, as completion on a command line offers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_type_hints

from bepo.core.places import CONF
from bepo.core.plugins import import_plugins, plugin_folders
from bepo.core.registry import choices
from bepo.runs.config import PLUGINS, Config
from bepo.runs.field_docs import dataclass_in

_GROUPS = (*PLUGINS, "model", "tier", "prompting")
"""The settings whose choices are names of plug-ins or of presets in ``conf/``."""


def choices_of_settings() -> dict[str, dict[str, list[str]]]:
    """Return ``values``, the choices of every setting by name, and ``owners``, the plug-ins that have a setting.

    A setting without a list of choices has an empty list. A setting without owners is one of every run.
    """
    import_plugins()
    values, owners = dict(_fields(Config, "")), dict[str, list[str]]()
    for group in _GROUPS:
        values[group] = sorted({*_presets(group), *(PLUGINS[group]() if group in PLUGINS else values.get(group, []))})
    for group, plugins in PLUGINS.items():
        for name, kind in plugins().items():
            for setting, words in _fields(kind, f"{group}."):
                values[setting] = list(dict.fromkeys([*values.get(setting, []), *words]))
                owners.setdefault(setting, []).append(name)
    return {"values": values, "owners": owners}


def _presets(group: str) -> Iterator[str]:
    for folder in (CONF, *plugin_folders("conf")):
        yield from (path.stem for path in (folder / group).glob("*.yaml"))


def _fields(kind: type, path: str) -> Iterator[tuple[str, list[str]]]:
    hints = get_type_hints(kind)
    for item in fields(kind):
        if item.name == "name" or (kind is Config and item.name in PLUGINS):
            continue
        if inner := dataclass_in(hints[item.name]):
            yield from _fields(inner, f"{path}{item.name}.")
        else:
            words = (True, False) if hints[item.name] is bool else choices(hints[item.name])
            yield f"{path}{item.name}", [_plain(word) for word in words]


def _plain(word: Any) -> str:
    return "null" if word is None else str(word).lower() if isinstance(word, bool) else str(word)
