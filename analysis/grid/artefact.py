"""What an artefact is, and the registry of all of them. Each file of ``tables/`` and ``figures/`` makes some."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from analysis.data.reported import PAPER
from analysis.data.runs import METHOD, RowKey, Studies
from analysis.data.sources import Source
from analysis.grid.table import Entry, Figure, Table
from bepo.core.errors import UserError, choose

Build = Callable[[Any], Table | Figure]
Kind = Literal["table", "figure"]
StudyNames = str | tuple[str, ...] | Mapping[str, RowKey]


@dataclass(frozen=True)
class Artefact:
    """``build`` makes a table or figure of studies by name; ``label`` is the paper's own."""

    label: str
    kind: Kind
    studies: Mapping[str, RowKey]
    build: Build

    def load(self, source: Source, tier: str, allow_mixed: bool = False) -> Studies:
        """Return what ``build`` takes."""
        return Studies({name: source.study(name, tier, key, allow_mixed) for name, key in self.studies.items()})

    def entries(self, source: Source, tier: str, allow_mixed: bool = False) -> list[Entry]:
        """Build it, and return the entries of a table; a figure has none."""
        product = self.build(self.load(source, tier, allow_mixed))
        return product.entries if isinstance(product, Table) else []


REGISTRY: dict[str, Artefact] = {}
_PLACES: dict[str, str] = {}  # the module of each label


def artefact(
    label: str, kind: Kind, study: StudyNames = (), key: RowKey = METHOD, of: type[Artefact] = Artefact
) -> Callable[[Build], Build]:
    """Decorate the builder of an artefact.

    ``study`` is a name, and the builder takes that ``StudyRuns``; or several names, and it takes them as ``Studies``.
    ``key`` says which rows the runs make up (by default methods); a mapping gives each study its own. ``of`` is the
    class of an artefact that loads something else. Raises ``UserError`` for another kind, and for a label that an
    artefact of another file has.
    """
    if kind not in get_args(Kind):
        raise choose(f"kind of artefact {label}", kind, get_args(Kind))

    def register(build: Build) -> Build:
        place = _PLACES.setdefault(label, build.__module__)
        if place != build.__module__:
            raise UserError(f"{build.__module__}: its label {label!r} is that of {place}")
        names = (study,) if isinstance(study, str) else study
        studies = names if isinstance(names, Mapping) else dict.fromkeys(names, key)
        of_studies = (lambda loaded: build(loaded[study])) if isinstance(study, str) else build
        REGISTRY[label] = of(label, kind, studies, of_studies)
        return build

    return register


def artefacts() -> dict[str, Artefact]:
    """Return every artefact by label, in the order in which the paper shows them; others come last, by label."""
    for package in ("analysis.tables", "analysis.figures"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
    text = "".join((PAPER / f"{part}.tex").read_text(encoding="utf-8") for part in ("main", "supplement"))
    shown = dict.fromkeys(re.findall(r"\\generated(?:table|figure)\{([^}]*)\}", text))
    return {label: REGISTRY[label] for label in [*shown, *sorted(REGISTRY.keys() - shown.keys())] if label in REGISTRY}
