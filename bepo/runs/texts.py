"""Texts in overrides: ``run=1e6857`` is a run ID, although Hydra's grammar reads a number there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra_plugins.hydra_optuna_sweeper.config import OptunaSweeperConf
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bepo.core.errors import UserError
from bepo.runs.config import PLUGINS, Config

_WORD = re.compile(r"""'(?:\\.|[^'])*'|"(?:\\.|[^"])*"|[^\s,\[\](){}'"]+""")
"""A quoted text, or a word between the commas and brackets of Hydra's grammar."""
_NAME = "study.name"
_CALL = re.compile(r"(?!choice)\w+\(")
"""The beginning of a function that makes numbers, such as ``range(8)``. The arguments of ``choice`` are values."""


def with_texts(overrides: Sequence[str]) -> list[str]:
    """Return overrides in which words that belong to text settings are quoted where Hydra would change them.

    ``run=1e6857`` becomes ``run='1e6857'``; ``seed=007`` stays. Lists and sweeps (``run=1e6857,12ab``) are quoted word
    by word. Options (``--multirun``) and overrides of settings that are not texts are returned as they are.
    """
    return [_with_text(override) for override in overrides]


def _with_text(override: str) -> str:
    name, equals, value = override.partition("=")
    if not equals or override.startswith("-") or _CALL.match(value) or "{" in value:
        return override
    name_of_study = name.lstrip("+") == _NAME  # a field of a free dictionary, in which 12 would stay a number
    keeps = is_plain if name_of_study else keeps_text
    changed = [word[0] for word in _WORD.finditer(value) if not keeps(word[0])]
    if not changed or not is_text(name.lstrip("+~")):
        return override
    quoted = _WORD.sub(lambda word: f"'{word[0]}'" if word[0] in changed else word[0], value)
    return f"{name}={quoted}"


def keeps_text(word: str) -> bool:
    """Return whether Hydra reads a word as a text, as null, or as a value that is written like the word, such as 12."""
    read = _read(word)
    return read is None or isinstance(read, str) or str(read) == word


def is_plain(word: str) -> bool:
    """Return whether Hydra reads a word as this text."""
    return _read(word) == word


def _read(word: str) -> Any:
    """Return a word as Hydra reads it; a quoted text, a sweep and invalid syntax as they are."""
    try:
        (override,) = OverridesParser.create().parse_overrides([f"x={word}"])
        return word if override.is_sweep_override() or word[0] in "'\"" else override.value()
    except HydraException:  # reported when the whole override is parsed
        return word


def is_text(path: str) -> bool:
    """Return whether a setting is a text or a list of texts, in at least one of the plug-ins that have it."""
    return path == _NAME or any(_holds_text(kind) for kind in _kinds(path))


def _kinds(path: str) -> Iterator[Any]:
    """Yield the types that a setting can have: one for each plug-in with this field."""
    kinds: list[Any] = [Config]
    if path.startswith("hydra.sweeper."):
        kinds, path = [OptunaSweeperConf], path.removeprefix("hydra.sweeper.")
    for depth, name in enumerate(path.split(".")):
        hints = [get_type_hints(kind) for kind in kinds if is_dataclass(kind)]
        entries = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
        kinds = [*(hint[name] for hint in hints if name in hint), *entries]
        if depth == 0 and name in PLUGINS:
            kinds = [*PLUGINS[name]().values()]
    yield from kinds


def _holds_text(kind: Any) -> bool:
    if get_origin(kind) is dict:
        kind = GenericAlias(list, get_args(kind)[1:])
    return kind is str or any(_holds_text(part) for part in get_args(kind) if not isinstance(part, str))


def refuse_changed_texts(text: str, place: str) -> None:
    """Raise ``UserError`` if YAML would read a text setting of an experiment file as a number or a truth value."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    for path, node in _scalars(root):
        setting = path.removeprefix("hydra.sweeper.params.")
        if node.style or not is_text(setting):
            continue
        try:
            read = OmegaConf.create(f"x: {node.value}").x
        except (OmegaConfBaseException, yaml.YAMLError):
            continue
        if not (read is None or isinstance(read, str)) and (setting == _NAME or str(read) != node.value):
            raise UserError(f"{place}: {setting}: YAML reads {node.value} as {read}; put it in quotes: '{node.value}'")


def _scalars(node: yaml.Node | None, path: str = "") -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yield the scalars of a YAML file with their dotted paths. Members of a list have the path of the list."""
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, path)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield from _scalars(value, f"{path}.{key.value}" if path else key.value)
