"""Findings of the doctor, and the findings about plug-ins (``bepo.core.errors.Missing``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import get_type_hints

from bepo.core.errors import Missing, UserError
from bepo.core.registry import choices
from bepo.core.settings import Settings


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    part: str
    name: str
    problem: str = ""  # empty: usable
    fix: str = ""
    note: str = ""
    minor: bool = False  # listed only if there is a problem


def plugin_findings(part: str, name: str, cls: type[Settings]) -> Iterator[Finding]:
    """Check a plug-in with its defaults, then with each other choice of its fields."""
    default, finding = _examined(part, name, cls)
    yield finding
    if default is None:
        return
    kinds = get_type_hints(cls)
    for field in fields(cls):
        for choice in choices(kinds[field.name]):
            if choice == vars(default)[field.name]:
                continue
            label, changed = f"{name} {field.name}={choice}", {field.name: choice}
            _, other = _examined(part, label, lambda changed=changed: replace(default, **changed), minor=True)
            yield replace(other, problem="", fix="") if other.problem == finding.problem else other


def _examined(
    part: str, name: str, make: Callable[[], Settings], minor: bool = False
) -> tuple[Settings | None, Finding]:
    """Return the settings (None if they are invalid), and the finding about them."""
    made = None
    try:
        made = make()
        problem = made.missing()
    except UserError as error:
        problem = error
    if problem is None:
        return made, Finding(part, name, minor=minor)
    text, fix = (problem.problem, problem.fix) if isinstance(problem, Missing) else (str(problem), "")
    return made, Finding(part, name, text, fix, minor=minor)
