"""The input of artefacts about claims: the entries of all tables of a tier, and every claim evaluated."""

from collections.abc import Collection
from functools import lru_cache

from analysis.claims.verdicts import Evaluated, evaluate
from analysis.data.cache import digest_of, load, save
from analysis.data.reported import EntryKey
from analysis.data.sources import Source
from analysis.data.studies import Studies, StudyRuns
from analysis.grid.artefact import REGISTRY, Artefact
from analysis.grid.table import Entry
from bepo.core.errors import told


class Entries(Studies):
    """The entries of all other tables at one tier by key, and every claim evaluated."""

    by_key: dict[EntryKey, Entry]
    evaluated: list[Evaluated]


class OfEntries(Artefact):
    """An artefact whose builder takes ``Entries``."""

    def load(self, source: Source, tier: str, allow_mixed: bool = False) -> Entries:
        """Build every other table, and return their entries with every claim evaluated."""
        by_key, evaluated, problems = _evaluated(source, tier, allow_mixed)
        runs = {run.id: run for entry in by_key.values() for run in entry.runs}
        study = StudyRuns(self.label, tier, [runs[i] for i in sorted(runs)])
        study.skipped.extend(problems)
        entries = Entries({self.label: study})
        entries.by_key, entries.evaluated = by_key, evaluated
        return entries

    def tiers(self, places: Collection[tuple[str, str]]) -> set[str]:
        """Return the tiers at which a table with entries may have runs: any but those of a class of their own."""
        return {tier for item in REGISTRY.values() if type(item) is Artefact for tier in item.tiers(places)}

    def digest(self, source: Source, tier: str) -> str:
        """Return the digest of all that the other tables are made of."""
        return _digest(source, tier)


Found = tuple[dict[EntryKey, Entry], list[Evaluated], list[str]]
"""The entries by key, every claim evaluated, and a line for each table that cannot be made."""


@lru_cache(maxsize=3)
def _evaluated(source: Source, tier: str, allow_mixed: bool) -> Found:
    """Return entries and claims, which are kept until the runs of some table or the sources change."""
    key = ("evaluated", _digest(source, tier), tier, allow_mixed)
    result = load(source, *key)
    if result is None:
        result = _evaluate(source, tier, allow_mixed)
        if not result[-1]:
            save(result, *key)
    return result


def _digest(source: Source, tier: str) -> str:
    tables = [item for item in REGISTRY.values() if item.kind == "table"]
    return digest_of(source, tuple(sorted({n for item in tables for n in (*item.studies, *item.alike)})), tier)


def _evaluate(source: Source, tier: str, allow_mixed: bool) -> Found:
    every, problems = list[Entry](), []
    for item in REGISTRY.values():
        if item.kind == "table" and not isinstance(item, OfEntries):
            try:
                every += item.entries(source, tier, allow_mixed)
            except (Exception, SystemExit) as error:  # any type: the code of any table, also of a plug-in
                problems.append(f"entries of {item.label} (tier {tier}): {told(error)}")
    by_key = {entry.key: entry for entry in every if any(entry.key)}
    return by_key, evaluate(by_key, tier), problems


def evaluated_claims(source: Source, tier: str, allow_mixed: bool = False) -> list[Evaluated]:
    """Return every claim of a tier, evaluated."""
    return _evaluated(source, tier, allow_mixed)[1]
