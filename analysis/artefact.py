"""What an artefact is, and the registry of all of them. Each file of ``tables/`` and ``figures/`` makes one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from analysis.runs import Study
from analysis.stats import Estimate

REPORTED = Path(__file__).parent.parent / "paper" / "reported"

Value = Estimate | str | None


@dataclass
class Table:
    """Rows of values under column names. A rule is drawn above each row named in ``rules``."""

    caption: str
    columns: list[str]
    rows: list[list[Value]]
    notes: list[str] = field(default_factory=list)
    best: set[tuple[int, int]] = field(default_factory=set)  # (row, column) cells set in bold
    rules: set[int] = field(default_factory=set)


@dataclass
class Figure:
    """A matplotlib figure and what it shows."""

    caption: str
    figure: object
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Artefact:
    """``build`` turns the runs of ``study`` into a table or a figure; ``label`` is the paper's own."""

    label: str
    kind: Literal["table", "figure"]
    study: str
    build: Callable[[Study], Table | Figure]


REGISTRY: dict[str, Artefact] = {}


def artefact(label: str, kind: Literal["table", "figure"], study: str) -> Callable:
    """Decorator of a builder."""

    def note(build: Callable[[Study], Table | Figure]) -> Callable[[Study], Table | Figure]:
        REGISTRY[label] = Artefact(label, kind, study, build)
        return build

    return note


def artefacts() -> dict[str, Artefact]:
    """Every artefact by label."""
    for package in ("analysis.tables", "analysis.figures"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
    return dict(sorted(REGISTRY.items()))
