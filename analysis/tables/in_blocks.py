"""The tables of runs in blocks that ``paper/tables.yaml`` describes: crbc-depth, state-deviation, critic-lead, ...

Frames are tables of blocks by rows, one a measure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml

from analysis.claims.blocks import Frames, measured
from analysis.claims.declared import DeclaredTest
from analysis.claims.looks import BLOCK_MEASURES
from analysis.contrast import Contrast, weighted
from analysis.data import rows as keys
from analysis.data.described import described
from analysis.data.methods import environment_name, marked_name, ordered
from analysis.data.rows import RowKey
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of
from analysis.grid.table import NOT_RUN, Printed, Table
from bepo.core.errors import unknown_choice
from bepo.core.places import PAPER

FILE = PAPER / "tables.yaml"
OVERALL = "Mean over methods"
_OWN, _PLAIN = "own", "plain"


@dataclass(frozen=True)
class Column:
    """A mean of a row, or the difference of two. ``count``: whether its number of blocks is shown."""

    head: str
    of: str | Sequence[str]
    measure: str = "speed"
    count: bool = False

    def cell(self, frames: Frames, row: str) -> Printed | str:
        """Return the cell of the row ``row``."""
        table = frames[self.measure]
        names = [row if name == _OWN else name for name in ([self.of] if isinstance(self.of, str) else self.of)]
        if len(names) == 1:
            points = weighted(table, {names[0]: 1}).to_numpy()
            return mean_of(points) if len(points) else NOT_RUN
        contrast = difference(table, *names)
        return f"{contrast.text()} ({contrast.units})" if self.count and contrast.units else contrast.text()


@dataclass(frozen=True)
class BlockTable:
    """A table of ``paper/tables.yaml``, whose head explains the fields."""

    label: str
    caption: str
    studies: Sequence[str]
    head: str
    columns: Sequence[Column]
    notes: Sequence[str]
    key: RowKey = keys.ROW_IN_BLOCKS
    env: str = ""
    mean: bool = False
    blocks: tuple[int, int] = (0, 10**9)
    shared: Sequence[str] = ()
    beside: Sequence[str] = ()
    rows: Literal["all"] | Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    declared: Sequence[DeclaredTest] = ()

    def build(self, studies: Studies) -> Table:
        """Make the table from its studies."""
        by_env, used = self.frames(studies)
        lines = [line for name, frames in self._groups(by_env).items() for line in self._lines(name, frames)]
        nothing = measured([])
        judged = [
            test.on(studies.tier, by_env.get(test.env or self.env, nothing)[test.measure]) for test in self.declared
        ]
        told = {result.test.name: result.told for result in judged}
        facts = {
            f"{self.label}/{env}/{name}": difference(frames["speed"], *pair).text()
            for env, frames in by_env.items()
            for name, pair in self.facts.items()
        }
        return Table(
            self.caption,
            [self.head, "Blocks", *(column.head for column in self.columns)],
            [cells for _, cells in lines],
            [
                " ".join(protocol([studies[name] for name in self.studies], used)),
                *(note.format_map(told) for note in self.notes),
                *origins(used),
            ],
            used=used,
            headings=[group for group, _ in lines] if self.rows == "all" else [],
            facts={name: text for result in judged for name, text in result.facts.items()} | facts,
        )

    def frames(self, studies: Studies) -> tuple[dict[str, Frames], list[Run]]:
        """Return every measure by environment, in the blocks that count, and the runs behind them."""
        pooled = Studies({name: replace(studies[name], key=self.key) for name in self.studies}).pooled()
        by_env, used, wanted = {}, [], set(self.shared)
        for env, runs in grouped(sorted(pooled, key=lambda run: run.env), lambda run: run.env).items():
            if self.env in ("", env):
                runs = [run for run in runs if self.blocks[0] <= run.seed <= self.blocks[1] and self._shows(run)]
                rows = grouped(runs, lambda run: run.seed)
                full = {block for block, in_block in rows.items() if wanted <= {self.key.row(run) for run in in_block}}
                if kept := [run for run in runs if run.seed in full]:
                    by_env[env] = measured(kept, lambda run: str(self.key.row(run)))
                    used += kept
        return by_env, used

    def _shows(self, run: Run) -> bool:
        return not self.shared or self.key.row(run) in (*self.shared, *self.beside)

    def _groups(self, by_env: Mapping[str, Frames]) -> dict[str, Frames]:
        """Return the frames of each group, by its name in print."""
        if not self.env:
            return {environment_name(env): frames for env, frames in by_env.items()}
        frames = by_env.get(self.env, measured([]))
        methods = _methods(self.shared) or ordered(_methods(frames["speed"].columns))
        of_methods = [{name: _without(t, method) for name, t in frames.items()} for method in methods]
        groups: dict[str, Frames] = dict(zip(map(marked_name, methods), of_methods, strict=True))
        if self.mean and len(groups) > 1:
            groups[OVERALL] = {name: _mean([of_method[name] for of_method in of_methods]) for name in frames}
        return groups

    def _lines(self, group: str, frames: Frames) -> Iterator[tuple[str, list[Printed | str]]]:
        """Yield the group and the cells of each of its rows."""
        table = frames["speed"]
        if self.rows == "all":
            rows = {name: name for name in sorted(table.columns, key=lambda name: (name != self.base, name))}
        else:
            rows = self.rows or {group: ""}
        for name, row in rows.items():
            blocks = len(weighted(table, {row: 1}) if row else table)
            yield group, [name, str(blocks), *(column.cell(frames, row) for column in self.columns)]


def _methods(rows: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(row.split(" ")[0] for row in rows))


def _without(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return the rows of a method without its name."""
    names = {row: row.removeprefix(method).strip() or _PLAIN for row in table if row.split(" ")[0] == method}
    return table.reindex(columns=list(names)).set_axis(list(names.values()), axis="columns")


def _mean(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the mean of tables, of the rows and in the blocks that all of them have."""
    shared = [name for name in tables[0] if all(name in table for table in tables)]
    blocks = set.intersection(*(set(table.index) for table in tables))
    means = np.mean([table.reindex(index=sorted(blocks), columns=shared).to_numpy() for table in tables], axis=0)
    return pd.DataFrame(means, sorted(blocks), shared).dropna(axis="columns", how="all")


def difference(table: pd.DataFrame, more: str, less: str) -> Contrast:
    """Return the difference of two rows in the blocks that both have; a row has no difference to itself."""
    return Contrast.of(table, {more: 1, less: -1}) if more != less else Contrast.over([])


def read_tables(path: Path = FILE) -> dict[str, BlockTable]:
    """Return the tables by label. Raises ``UserError`` for unknown fields, keys and measures."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {label: _table(f"{path}: {label}", label, item) for label, item in content.items()}


def _table(where: str, label: str, item: dict[str, Any]) -> BlockTable:
    known = {name: value for name, value in vars(keys).items() if isinstance(value, RowKey)}
    key = item.get("key", "ROW_IN_BLOCKS")
    if key not in known:
        raise unknown_choice(f"{where}: key", key, known)
    columns = [described(f"{where}: columns", Column, column) for column in item.get("columns", ())]
    blocks = {"blocks": item["blocks"]} if "blocks" in item else {}
    tests = [blocks | test | {"name": name} for name, test in item.get("declared", {}).items()]
    declared = [described(f"{where}: declared", DeclaredTest, test) for test in tests]
    for part in (*columns, *declared):
        if part.measure not in BLOCK_MEASURES:
            raise unknown_choice(f"{where}: measure", part.measure, BLOCK_MEASURES)
    given = {"label": label, "key": known[key], "columns": columns, "declared": declared}
    return described(where, BlockTable, item | given)


for _label, _item in read_tables().items():
    artefact(_label, "table", study=tuple(_item.studies), key=_item.key)(partial(BlockTable.build, _item))
