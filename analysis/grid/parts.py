"""The parts of a grid: metrics (columns), blocks and rows."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.methods import is_reconstruction, name_of, ordered
from analysis.data.reported import Reported
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Level, Reproduced, Scores, estimate
from analysis.grid.table import Entry


@dataclass(frozen=True)
class Metric:
    """A column: a quantity and the episodes over which it is averaged.

    ``key``: its name in ``paper/reported``. ``group``: the head over several columns. ``value``: a column of the
    episode rows, or a function of a run that raises ``KeyError`` if the metric was not logged. ``env`` and ``kind``
    restrict the runs and the tasks. ``headline``: whether a note compares the best two rows. ``ranked``: whether more
    is better; if not, best row and gap are left out.
    """

    key: str
    name: str
    group: str = ""
    value: str | Callable[[Run], float] = "success"
    env: str | None = None
    kind: str | None = None
    headline: bool = False
    format: str = ".1f"
    ranked: bool = True

    @property
    def episodes(self) -> tuple[str, str] | None:
        """The column and the kind of the averaged test episodes; None for a logged number."""
        return (self.value, self.kind or "") if isinstance(self.value, str) else None

    def estimate(self, runs: Iterable[Run], level: Level = "training") -> Reproduced | None:
        """Return the estimate from the runs, or None if there is nothing to average.

        Two runs with one seed count as passes of one run. Only means are kept for logged values, and for runs with
        different tasks (``--allow-mixed``).
        """
        by_seed = grouped(sorted(runs, key=lambda run: run.seed), lambda run: run.seed)
        try:
            passes = [[self._passes(run) for run in same] for same in by_seed.values()]
        except KeyError:
            return None
        columns = [frame.columns for same in passes for frame in same]
        if not columns or not all(map(len, columns)):
            return None
        first, *others = (tuple(of_run.get_level_values(-1)) for of_run in columns)
        if not isinstance(self.value, str) or any(tasks != first for tasks in others):
            means = tuple(np.concatenate([f.to_numpy().mean(axis=1) for f in same])[:, None] for same in passes)
            return estimate(Scores(tuple(by_seed), means, None), level)
        values = tuple(np.concatenate([f.to_numpy() for f in same]) for same in passes)
        kinds = tuple(map(str, columns[0].get_level_values("kind")))
        return estimate(Scores(tuple(by_seed), values, first, kinds), level)

    def _passes(self, run: Run) -> pd.DataFrame:
        """Return (evaluation passes, tasks), or the logged number of a run; without columns if it is missing."""
        if not isinstance(self.value, str):
            value = float(self.value(run))
            return pd.DataFrame([[value]] if np.isfinite(value) else [])
        frame = run.passes(self.value)
        return frame if self.kind is None else frame.loc[:, frame.columns.get_level_values("kind") == self.kind]


class Member(NamedTuple):
    """A run of a study; or an environment, model and row whose runs were refused, with the reason."""

    study: str
    env: str
    model: str
    row: str
    run: Run | None = None
    refusal: str = ""


@dataclass(frozen=True)
class RowGroup:
    """Rows under one heading, of a model, an environment, or a study. None means any.

    ``key``: its name in ``paper/reported`` and in paths. ``rows``: rows that are shown even without runs.
    """

    key: str = ""
    name: str = ""
    model: str | None = None
    env: str | None = None
    study: str | None = None
    rows: tuple[str, ...] = ()

    def takes(self, m: Member) -> bool:
        """Return whether a run belongs to the block."""
        pairs = (self.study, m.study), (self.env, m.env), (self.model, m.model)
        return all(wanted in (None, other) for wanted, other in pairs)


@dataclass(frozen=True)
class Rows:
    """Names of rows: the heads of the first columns, and a row's labels in them.

    ``named``: the column with the row's name, which is also used in paths. ``order``: orders the rows that are not in
    the paper.
    """

    heads: tuple[str, ...] = ("Method",)
    labels: Callable[[str], list[str]] = lambda row: [name_of(row)]
    named: int = 0
    order: Callable[[Iterable[str]], list[str]] = ordered


@dataclass
class Line:
    """A row of a grid before layout."""

    block: RowGroup
    row: str
    name: str
    reported: list[Reported] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """The signs after its name: numbers copied from elsewhere, and reconstructions."""
        return "ᶜ" * any(entry.copied for entry in self.reported) + "ʳ" * is_reconstruction(self.row)


def setting_rows(heads: tuple[str, ...], labels: Callable[[dict[str, str]], list[str]]) -> Rows:
    """Return rows of settings. ``labels`` gets ``{"n_min": "2", "b_min": "2"}``; the first label is the row's name."""
    return Rows(heads, lambda row: labels(dict(part.split("=", 1) for part in row.split(" "))), order=_by_value)


def _by_value(rows: Iterable[str]) -> list[str]:
    """Return settings in order; numbers by size."""
    return sorted(rows, key=size_of)


def size_of(row: str) -> list[tuple]:
    """Return the sort key of a row of settings: numbers by size before texts; numbers inside texts by size too."""
    return [(name, *_size(value)) for name, _, value in (word.rpartition("=") for word in row.split(" "))]


def _size(value: str) -> tuple:
    try:
        number = float(value)
    except ValueError:
        number = nan
    if isfinite(number):
        return 0, number, []
    parts = re.split(r"(\d+)", value)
    return 1, 0.0, [(float(part), "") if i % 2 else (0.0, part) for i, part in enumerate(parts)]
