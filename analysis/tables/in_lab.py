"""The tables of the lab's measures that ``paper/lab.yaml`` describes under ``tables``: lab-bias."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import yaml

from analysis.contrast import Contrast
from analysis.data.described import described
from analysis.data.lab import PLAN, Kind, LabRows, OverWorlds, label_of, recorded
from analysis.grid.artefact import artefact
from analysis.grid.table import Printed, Table
from bepo.core.errors import unknown_choice

_EXACT = 1e-9
"""Below this value a measure counts as 0; rounding leaves 1e-12."""


@dataclass(frozen=True)
class Column:
    """A measure at a setting, both as recorded, or its difference from that of the estimator ``less``."""

    head: str
    at: str
    measure: str = "error"
    less: str = ""
    form: str = ".3f"

    def values(self, rows: LabRows, estimator: str) -> OverWorlds | None:
        """Return its values over worlds for an estimator; None if they are not recorded.

        Raises ``UserError`` if no estimator has the measure or the setting.
        """
        for name, value in (("measure", self.measure), ("at", self.at)):
            if value not in (known := rows.rows[name].unique()) and len(known):
                raise unknown_choice(f"column {self.head}: {name}", value, known)
        values = rows.values(self.at, estimator, self.measure)
        less = rows.values(self.at, self.less, self.measure) if self.less else 0
        return None if values is None or less is None else values - less


@dataclass(frozen=True)
class LabTable:
    """A table of ``paper/lab.yaml``, whose head explains the fields."""

    caption: str
    of: Kind
    estimators: Sequence[str]
    columns: Sequence[Column]
    notes: Sequence[str]

    def build(self, _: object) -> Table:
        """Make the table from what is recorded."""
        rows = recorded(self.of)
        cells = {words: [column.values(rows, words) for column in self.columns] for words in self.estimators}
        zero = [label_of(words) for words, row in cells.items() if all(map(_is_zero, row))]
        return Table(
            self.caption,
            ["Estimator", *(column.head for column in self.columns)],
            [
                [label_of(words), *(_printed(values, column.form) for values, column in zip(row, self.columns))]
                for words, row in cells.items()
            ],
            [note.format(zero=", ".join(zero) or "none") for note in self.notes],
        )


def _is_zero(values: OverWorlds | None) -> bool:
    return values is not None and bool((abs(values) < _EXACT).all())


def _printed(values: OverWorlds | None, form: str) -> Printed | str:
    if values is None:
        return "–"
    return Printed("0", bold=True) if _is_zero(values) else Contrast.over(values).text(form)


def read_tables(path: Path = PLAN) -> dict[str, LabTable]:
    """Return the tables by label. Raises ``UserError`` for unknown fields and kinds of measurement."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {label: _table(f"{path}: tables: {label}", item) for label, item in content["tables"].items()}


def _table(where: str, item: Mapping[str, Any]) -> LabTable:
    columns = [described(f"{where}: columns", Column, column) for column in item.get("columns", ())]
    table = described(where, LabTable, {**item, "columns": columns})
    if table.of not in get_args(Kind):
        raise unknown_choice(f"{where}: of", table.of, get_args(Kind))
    return table


for _label, _item in read_tables().items():
    artefact(_label, "table")(partial(LabTable.build, _item))
