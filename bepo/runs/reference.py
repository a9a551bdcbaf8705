"""The settings reference as Markdown: every field of a config with its default, range, choices and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints

from bepo.core.registry import choices
from bepo.core.settings import RANGE, Range
from bepo.runs.config import PLUGINS, Config
from bepo.runs.field_docs import dataclass_in, field_docs

_HEAD = """# Settings

Every field of a run, as `part.field=value` on the command line. The tiers change some defaults:
`python -m bepo.train tier=laptop --help` prints the values of a tier, and `credit=hgpo --help` those of a choice.

This page is generated: `python -m bepo.settings docs/settings.md`.
"""
_TABLE = "| field | default | allowed | meaning |\n|---|---|---|---|"


def reference() -> str:
    """Return the page: the fields of a run, then of its parts, then of every plug-in."""
    sections = [_HEAD, *_section("A run", Config, "")]
    for group, plugins in PLUGINS.items():
        for name, kind in plugins().items():
            sections += _section(f"{group}={name}", kind, f"{group}.")
    return "\n".join(sections)


def _section(title: str, kind: type, path: str) -> Iterator[str]:
    """Yield a heading and a table for a dataclass, then for each dataclass in it."""
    docs, hints = field_docs(kind), get_type_hints(kind)
    inner = {item.name: dataclass_in(hints[item.name]) for item in fields(kind)}
    shown = [item for item in fields(kind) if item.name != "name" and item.name not in PLUGINS]
    yield f"## {title}\n\n{_first_line(kind)}\n"
    rows = [_row(item, hints[item.name], docs, path) for item in shown if not inner[item.name]]
    if rows:
        yield "\n".join([_TABLE, *rows, ""])
    for name, part in inner.items():
        if part is not None:
            yield from _section(f"{path}{name}" if path else name, part, f"{path}{name}.")


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").replace("``", "`")


def _row(item: Field, hint: Any, docs: dict[str, str], path: str) -> str:
    default = item.default if item.default_factory is MISSING else item.default_factory()
    meaning = docs.get(item.name, "").replace("``", "`")
    cells = [f"`{path}{item.name}`", f"`{_plain(default)}`", _allowed(item, hint), meaning]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _allowed(item: Field, hint: Any) -> str:
    if words := choices(hint):
        return ", ".join(f"`{_plain(word)}`" for word in words)
    bounds = item.metadata.get(RANGE, Range())
    return str(bounds) if bounds != Range() else ""


def _plain(value: Any) -> str:
    """Return a value in the syntax of the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "" if is_dataclass(value) or value == "???" else str(value)
