"""The meanings of config fields for ``--help``, read from the docstrings in the sources."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from bepo.core.registry import choices
from bepo.runs.config import PLUGINS, Config

_HEADING = "== Config =="
_INTERNAL = r"^(?:hardware|official|[a-z]+/.*): .*\n"  # groups that other choices set
_COLUMN, _WIDTH = 34, 120


@cache
def field_docs(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields of a dataclass and its base classes, each in one line, by field."""
    docs: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if is_dataclass(cls) and cls.__module__ != "builtins":
            docs |= _documented(ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0])
    return docs


def _documented(cls: ast.stmt) -> dict[str, str]:
    body = cls.body if isinstance(cls, ast.ClassDef) else []
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def meanings(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the docstrings of the fields of a composed config by dotted path."""
    return dict(_meanings(config, Config, ""))


def _meanings(part: Mapping[str, Any], kind: type, path: str) -> Iterator[tuple[str, str]]:
    docs, hints = field_docs(kind), get_type_hints(kind)
    for name, value in part.items():
        words = "|".join(_shown(word) for word in choices(hints.get(name)) if name != "name")
        if text := ": ".join(filter(None, (words, docs.get(name, "")))):
            yield f"{path}{name}", text
        if isinstance(value, Mapping):
            inner = _plugin(name, value) if kind is Config and name in PLUGINS else dataclass_in(hints.get(name))
            if inner is not None:
                yield from _meanings(value, inner, f"{path}{name}.")


def _shown(word: Any) -> str:
    return "null" if word is None else str(word).lower() if isinstance(word, bool) else str(word)


def _plugin(group: str, settings: Mapping[str, Any]) -> type | None:
    return PLUGINS[group]().get(settings.get("name", ""))


def dataclass_in(hint: Any) -> type | None:
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    return next((kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)), None)


def explained(help_text: str) -> str:
    """Add the meaning of each field to Hydra's help, beside its value. Other text stays unchanged."""
    before, heading, rest = help_text.partition(_HEADING)
    if not heading:
        return help_text
    before = re.sub(_INTERNAL, "", before, flags=re.MULTILINE)
    lines = rest.splitlines()
    is_config = [bool(line) and (line[0] == " " or ":" in line.split(" ")[0]) for line in lines]
    config = yaml.safe_load("\n".join(line for line, wanted in zip(lines, is_config) if wanted))
    if not isinstance(config, dict):
        return help_text
    known, path = meanings(config), list[str]()
    shown = []
    for line, wanted in zip(lines, is_config):
        name, colon, _ = line.strip().partition(":")
        if not wanted or not colon or line.strip().startswith("-"):
            shown.append(line)
            continue
        path = [*path[: (len(line) - len(line.lstrip())) // 2], name]
        shown += _beside(line, known.get(".".join(path), ""))
    return before + heading + "\n".join(shown) + "\n"


def _beside(line: str, meaning: str) -> list[str]:
    """Return a line with its meaning to the right, wrapped onto more lines if necessary."""
    if not meaning:
        return [line]
    first, *more = textwrap.wrap(meaning, _WIDTH - _COLUMN - 2)
    lines = [f"{line:{_COLUMN}}# {first}"] if len(line) < _COLUMN else [line, f"{'':{_COLUMN}}# {first}"]
    return lines + [f"{'':{_COLUMN}}# {rest}" for rest in more]
