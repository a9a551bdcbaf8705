"""The paper's reported numbers: ``paper/reported/<label>.csv`` by table; ``text.csv`` has the numbers in prose."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from math import nan

from analysis.data.statistics import Estimate
from bepo.core.places import PAPER

REPORTED = PAPER / "reported"

EntryKey = tuple[str, str, str, str]
"""The key of one number: the label of its table, then row, group and column as in ``paper/reported``."""


@dataclass(frozen=True)
class Reported:
    """A reported entry. ``mean`` and ``std`` are the printed texts; ``std`` is empty without a deviation."""

    label: str
    row: str
    group: str
    column: str
    mean: str
    std: str
    note: str

    @property
    def key(self) -> EntryKey:
        """The key of the entry."""
        return self.label, self.row, self.group, self.column

    @property
    def value(self) -> Estimate | str:
        """The number, or the text if the entry is not a number."""
        try:
            return Estimate(float(self.mean), float(self.std) if self.std else nan)
        except ValueError:
            return self.mean

    @property
    def copied(self) -> bool:
        """Whether the paper took the number from elsewhere."""
        return self.note.startswith("copied:")


def entries_of(label: str) -> list[Reported]:
    """Return the reported entries of a table in their order; an empty list for a table that is not in the paper."""
    path = REPORTED / f"{label}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [Reported(label, **row) for row in csv.DictReader(file)]


@cache
def all_entries() -> Mapping[EntryKey, Reported]:
    """Return every reported entry by its key."""
    return {entry.key: entry for path in sorted(REPORTED.glob("*.csv")) for entry in entries_of(path.stem)}


def last_unit(text: str) -> Decimal:
    """Return one unit of the last digit of a printed number: 0.1 for ``72.8``. The rounding error is at most half."""
    return Decimal(1).scaleb(int(Decimal(text).as_tuple().exponent))  # of a finite number
