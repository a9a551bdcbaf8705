"""The paper's reported numbers, transcribed once: ``paper/reported/<label>.csv``; ``text.csv`` has those in prose."""

import csv
from dataclasses import dataclass
from decimal import Decimal
from math import nan
from pathlib import Path

from analysis.data.statistics import Estimate

PAPER = Path(__file__).parents[2] / "paper"
REPORTED = PAPER / "reported"

EntryKey = tuple[str, str, str, str]
"""Names one number: the label of its table, then row, group and column as in ``paper/reported``."""


@dataclass(frozen=True)
class Reported:
    """A reported entry; ``mean`` and ``std`` are the texts that the paper prints, ``std`` empty where it has none."""

    label: str
    row: str
    group: str
    column: str
    mean: str
    std: str
    note: str

    @property
    def key(self) -> EntryKey:
        """Its name among all numbers."""
        return self.label, self.row, self.group, self.column

    @property
    def value(self) -> Estimate | str:
        """The number, or the text of an entry that holds none."""
        try:
            return Estimate(float(self.mean), float(self.std) if self.std else nan)
        except ValueError:
            return self.mean

    @property
    def copied(self) -> bool:
        """Did the paper take the number from elsewhere?"""
        return self.note.startswith("copied:")


def entries_of(label: str) -> list[Reported]:
    """Return the reported entries of a table in their order; none for a table that the paper does not have."""
    path = REPORTED / f"{label}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [Reported(label, **row) for row in csv.DictReader(file)]


def all_entries() -> dict[EntryKey, Reported]:
    """Return every reported entry by its key."""
    return {entry.key: entry for path in sorted(REPORTED.glob("*.csv")) for entry in entries_of(path.stem)}


def last_unit(text: str) -> Decimal:
    """Return one unit of the last digit of a printed number: 0.1 for ``72.8``. Its rounding may hide half of that."""
    return Decimal(1).scaleb(int(Decimal(text).as_tuple().exponent))  # an infinity has none
