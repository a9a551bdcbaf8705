"""What an artefact is, and the registry of all of them. Each file of ``tables/`` and ``figures/`` makes some."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis.runs import METHOD, Key, Run
from analysis.sources import Source
from analysis.stats import Comparison, Estimate, Sample

PAPER = Path(__file__).parent.parent / "paper"
REPORTED = PAPER / "reported"

# The paper's order; what it does not have comes last.
_ORDER = (
    "alfworld-success-curves",
    "credit-comparison",
    "method-comparison",
    "method-overview",
    "main-results",
    "sokoban-main",
    "alfworld-aliasing-curves",
    "fusion-ablation",
    "gate-activation",
    "gate-ablation",
    "ablation-diagnostics",
    "gate-gae-ablation",
    "supp-common-hparams",
    "supp-environment-hparams",
    "diagnostic-ablation",
    "backup-ablation",
    "maxiter-ablation",
    "supp-mixing-ablation",
    "supp-gate-diagnostics",
    "qwen3-results",
    "supp-rl-signals",
    "supp-alfworld-1p5b-validation-curves",
    "supp-alfworld-7b-curves",
    "supp-runtime",
    "in-text",
    "claims",
    "granularity",
    "optuna-history",
    "optuna-importance",
)

NOT_RUN = "not run"
NOT_MEASURED = "none"  # there are runs, but nothing of the kind: no such task, or no such metric

Value = Estimate | str | None


@dataclass
class Cell:
    """One number of a table and everything behind it. ``path`` is its name: ``main-results/ALFWorld/All/HGPO/1.5B``."""

    path: str
    key: tuple[str, str, str, str] = ("", "", "", "")
    """(label, row, group, column) in the ids of ``paper/reported``."""
    reported: Estimate | None = None
    found: Estimate | None = None
    missing: str = ""
    """Why nothing was found: ``not run``, or why its runs may not be averaged."""
    sample: Sample | None = None
    runs: list[Run] = field(default_factory=list)
    rival: str = ""
    """Path of the cell that ``versus`` compares with: the best one, or the next for the best itself."""
    versus: Comparison | None = None

    @property
    def gap(self) -> float | None:
        return self.found.mean - self.reported.mean if self.found and self.reported else None


@dataclass
class Table:
    """Rows of values under column names."""

    caption: str
    columns: list[str]
    rows: list[list[Value]]
    notes: list[str] = field(default_factory=list)
    best: set[tuple[int, int]] = field(default_factory=set)
    """(row, column) cells set in bold."""
    marks: dict[tuple[int, int], str] = field(default_factory=dict)
    """Signs behind a cell, explained in the notes."""
    rules: set[int] = field(default_factory=set)
    """Rows with a rule above."""
    headings: dict[int, str] = field(default_factory=dict)
    """A line over the whole width above a row."""
    spans: list[tuple[str, int]] = field(default_factory=list)
    """Heads over several columns: (text, columns), from the left."""
    left: int = 1
    """Columns that are text, set flush left."""
    named: int = 0
    """The column with the rows' names."""
    formats: dict[int | tuple[int, int], str] = field(default_factory=dict)
    """Format of a column's numbers, or of the one at (row, column), where it is not ``.1f``."""
    widths: dict[int, float] = field(default_factory=dict)
    """Columns of running text, as shares of the line; such a table may run over pages."""
    cells: list[Cell] = field(default_factory=list)
    """What is behind the numbers."""
    facts: dict[str, str] = field(default_factory=dict)
    """Named numbers that follow from the table, for the paper's running text."""


@dataclass
class Figure:
    """A matplotlib figure and what it shows. ``runs`` are those drawn."""

    caption: str
    figure: object
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Artefact:
    """``build`` makes a table or figure of studies; ``label`` is the paper's own."""

    label: str
    kind: Literal["table", "figure"]
    studies: Mapping[str, Key]
    build: Callable[[Any], Table | Figure]
    one: bool
    """Does the builder take one study, or all of them by name?"""

    def load(self, source: Source, scale: str, allow_mixed: bool = False) -> Any:
        """What ``build`` takes: a ``Study``, or a dict of them by name."""
        found = {name: source.study(name, scale, key, allow_mixed) for name, key in self.studies.items()}
        return next(iter(found.values())) if self.one else found


REGISTRY: dict[str, Artefact] = {}


def artefact(
    label: str,
    kind: Literal["table", "figure"],
    study: str | tuple[str, ...] | Mapping[str, Key] = (),
    key: Key = METHOD,
) -> Callable:
    """Decorator of a builder.

    ``study`` is a name, and the builder takes that ``Study``; or several names, and it takes them in a dict by name.
    ``key`` says which rows the runs make up (by default methods); a mapping gives each study its own.
    """

    def note(build: Callable[[Any], Table | Figure]) -> Callable[[Any], Table | Figure]:
        names = (study,) if isinstance(study, str) else study
        studies = names if isinstance(names, Mapping) else dict.fromkeys(names, key)
        REGISTRY[label] = Artefact(label, kind, studies, build, isinstance(study, str))
        return build

    return note


def artefacts() -> dict[str, Artefact]:
    """Every artefact by label, in the paper's order."""
    for package in ("analysis.tables", "analysis.figures"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
    place = {label: i for i, label in enumerate(_ORDER)}
    return dict(sorted(REGISTRY.items(), key=lambda item: (place.get(item[0], len(place)), item[0])))
