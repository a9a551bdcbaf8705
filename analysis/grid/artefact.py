"""Artefacts and their registry. Each file of ``tables/`` and ``figures/`` registers some."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, get_args

from analysis.data.cache import cached, digest_of
from analysis.data.rows import METHOD, RowKey
from analysis.data.sources import Source
from analysis.data.studies import Studies
from analysis.grid.design import design
from analysis.grid.table import Entry, Figure, Table
from bepo.core.errors import UserError, unknown_choice
from bepo.core.places import PAPER
from bepo.core.plugins import import_artefacts

Build = Callable[[Any], Table | Figure]
Kind = Literal["table", "figure"]
StudyNames = str | tuple[str, ...] | Mapping[str, RowKey]


@dataclass(frozen=True, eq=False)
class Artefact:
    """A table or figure. ``build`` makes it from studies by name; ``label`` is its label in the paper.

    Runs of the studies ``alike`` count too, if their settings are those of a run of ``studies``.
    """

    label: str
    kind: Kind
    studies: Mapping[str, RowKey]
    build: Build
    alike: tuple[str, ...] = ()

    def load(self, source: Source, tier: str, allow_mixed: bool = False) -> Studies:
        """Return the studies that ``build`` takes."""
        named = self.studies.items()
        return Studies({name: source.study(name, tier, key, allow_mixed, self.alike) for name, key in named})

    def make(self, source: Source, tier: str, allow_mixed: bool = False) -> tuple[Studies, Table | Figure]:
        """Load the studies and build it; its caption ends with the design of its runs.

        A table is built once for a source, because claims need it too.
        """
        return (_table if self.kind == "table" else _made)(self, source, tier, allow_mixed)

    def tiers(self, places: Collection[tuple[str, str]]) -> set[str]:
        """Return the tiers at which its studies have cells, of ``places``: the studies and tiers that have some."""
        return {tier for study, tier in places if study in self.studies}

    def entries(self, source: Source, tier: str, allow_mixed: bool = False) -> list[Entry]:
        """Build it and return the entries of a table; an empty list for a figure."""
        product = self.make(source, tier, allow_mixed)[1]
        return product.entries if isinstance(product, Table) else []

    def digest(self, source: Source, tier: str) -> str:
        """Return the digest of all that it is made of."""
        return digest_of(source, (*self.studies, *self.alike), tier)

    def key(self, source: Source, tier: str, allow_mixed: bool) -> tuple[object, ...]:
        """Return what it is kept under; a picture with the folder that it is in, too."""
        return self.kind, self.label, self.digest(source, tier), tier, allow_mixed


def _made(item: Artefact, source: Source, tier: str, allow_mixed: bool) -> tuple[Studies, Table | Figure]:
    loaded = item.load(source, tier, allow_mixed)
    product = item.build(loaded)
    product.caption = f"{product.caption} {design(loaded.runs if product.runs is None else product.runs)}".rstrip()
    return Studies(loaded), product  # without what a subclass has loaded beside them


@lru_cache(maxsize=200)
def _table(item: Artefact, source: Source, tier: str, allow_mixed: bool) -> tuple[Studies, Table | Figure]:
    """Return a table and its studies, which are kept until their runs or the sources change."""
    make = partial(_made, item, source, tier, allow_mixed)
    return cached(make, source, *item.key(source, tier, allow_mixed))


REGISTRY: dict[str, Artefact] = {}
_PLACES: dict[str, str] = {}  # the function of each label


def artefact(
    label: str,
    kind: Kind,
    study: StudyNames = (),
    key: RowKey = METHOD,
    of: type[Artefact] = Artefact,
    alike: tuple[str, ...] = (),
) -> Callable[[Build], Build]:
    """Register the decorated function as the builder of an artefact.

    ``study``: one name, and the builder takes its ``StudyRuns``; or several names, and it takes ``Studies``. A mapping
    gives each study its own key. ``key``: assigns runs to rows (default: by method). ``of``: the class of an artefact
    that loads something else. ``alike``: see ``Artefact``.

    Raises ``UserError`` for an unknown kind, and for a label that another function has.
    """
    if kind not in get_args(Kind):
        raise unknown_choice(f"kind of artefact {label}", kind, get_args(Kind))

    def register(build: Build) -> Build:
        function: Any = build.func if isinstance(build, partial) else build
        place = f"{function.__module__}.{function.__qualname__}"
        if (taken := _PLACES.setdefault(label, place)) != place:
            raise UserError(f"{place}: label {label!r} is already registered by {taken}")
        names = (study,) if isinstance(study, str) else study
        studies = names if isinstance(names, Mapping) else dict.fromkeys(names, key)
        of_studies = (lambda loaded: build(loaded[study])) if isinstance(study, str) else build
        REGISTRY[label] = of(label, kind, studies, of_studies, alike)
        return build

    return register


def artefacts(kind: Kind | None = None) -> dict[str, Artefact]:
    """Return every artefact by label, those of plug-ins too: first in the paper's order, then the others by label.

    With ``kind``, only tables or only figures, and the libraries of the others are not imported.
    """
    for package in ("analysis.tables", "analysis.figures") if kind is None else (f"analysis.{kind}s",):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
    import_artefacts()
    text = "".join((PAPER / f"{part}.tex").read_text(encoding="utf-8") for part in ("main", "supplement"))
    shown = dict.fromkeys(re.findall(r"\\generated(?:table|figure)\{([^}]*)\}", text))
    known = {label: REGISTRY[label] for label in [*shown, *sorted(REGISTRY.keys() - shown.keys())] if label in REGISTRY}
    return {label: item for label, item in known.items() if kind in (None, item.kind)}
