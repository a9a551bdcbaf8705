"""The parts of a grid: what its columns measure, what its blocks take, how its rows are named."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from analysis.data.methods import is_reconstruction, name_of, ordered
from analysis.data.published import Published
from analysis.data.runs import Run
from analysis.data.statistics import Sample
from analysis.grid.table import Entry


@dataclass(frozen=True)
class Metric:
    """A column: what is averaged over which episodes.

    ``key`` is its name in ``paper/reported``, ``group`` the head over several columns. ``value`` is a column of the
    episode rows, or a function of a run that raises ``KeyError`` where it was not logged. ``env`` and ``kind`` take
    only runs of that environment and tasks of that kind. Where ``headline`` is set, a note says what the comparison is
    worth. More is better if it is ``ranked``; otherwise it has no best row and no gap.
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

    def sample(self, runs: Sequence[Run]) -> Sample | None:
        """Return the values by training seed, or None if there is nothing to average.

        Two runs of one seed count as passes of one.
        """
        by_seed = {seed: [run for run in runs if run.seed == seed] for seed in sorted({run.seed for run in runs})}
        return (self._of_metrics if callable(self.value) else self._of_episodes)(by_seed) if by_seed else None

    def _of_metrics(self, by_seed: dict[int, list[Run]]) -> Sample | None:
        """Return one number a run, or None where a run did not log it."""
        try:
            values = [np.array([[float(self.value(run))] for run in same]) for same in by_seed.values()]
        except KeyError:
            return None
        return Sample(tuple(by_seed), tuple(values), None) if np.isfinite(np.concatenate(values)).all() else None

    def _of_episodes(self, by_seed: dict[int, list[Run]]) -> Sample | None:
        frames = [[run.passes(self.value) for run in same] for same in by_seed.values()]
        if self.kind is not None:
            frames = [[f.loc[:, f.columns.get_level_values("kind") == self.kind] for f in same] for same in frames]
        columns = [list(frame.columns) for same in frames for frame in same]
        if not all(columns):
            return None
        kinds, tasks = zip(*columns[0])
        if any(tuple(task for _, task in of_run) != tasks for of_run in columns):  # mixed on demand
            values = [np.concatenate([f.to_numpy().mean(axis=1) for f in same])[:, None] for same in frames]
            return Sample(tuple(by_seed), tuple(values), None)
        values = [np.concatenate([frame.to_numpy() for frame in same]) for same in frames]
        return Sample(tuple(by_seed), tuple(values), tasks, tuple(map(str, kinds)))


class Member(NamedTuple):
    """A run of a study, or the environment, model and row whose runs were refused, and why."""

    study: str
    env: str | None
    model: str
    row: str
    run: Run | None = None
    refusal: str = ""


@dataclass(frozen=True)
class Block:
    """Rows under one heading: those of a model, an environment, or a factor that has its own study. None takes any.

    ``key`` is its name in ``paper/reported`` and in paths.
    """

    key: str = ""
    name: str = ""
    model: str | None = None
    env: str | None = None
    study: str | None = None

    def takes(self, m: Member) -> bool:
        """Does a run belong to the block?"""
        pairs = (self.study, m.study), (self.env, m.env), (self.model, m.model)
        return all(own in (None, other) for own, other in pairs)


@dataclass(frozen=True)
class Rows:
    """How rows are named: heads of the leading columns, a row's labels in them, and its part of a path.

    ``named`` is the column that holds the name, ``order`` the order of rows that the paper does not have.
    """

    heads: tuple[str, ...] = ("Method",)
    labels: Callable[[str], list[str]] = lambda row: [name_of(row)]
    name: Callable[[str], str] = name_of
    named: int = 0
    order: Callable[[Iterable[str]], list[str]] = ordered


@dataclass
class Line:
    """A row of a grid before it is laid out."""

    block: Block
    row: str
    name: str
    published: list[Published] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """The signs behind its name: numbers taken from elsewhere, and reconstructions."""
        return "ᶜ" * any(entry.copied for entry in self.published) + "ʳ" * is_reconstruction(self.row)


def setting_rows(heads: tuple[str, ...], labels: Callable[[dict[str, str]], list[str]]) -> Rows:
    """Return rows of settings. ``labels`` gets ``{"n_min": "2", "b_min": "2"}``; the first label is the row's name."""

    def parsed(row: str) -> list[str]:
        return labels(dict(part.split("=", 1) for part in row.split(" ")))

    return Rows(heads, parsed, lambda row: parsed(row)[0], order=_by_value)


def _by_value(rows: Iterable[str]) -> list[str]:
    """Return settings in order, numbers by size."""
    parts = {row: re.split(r"(\d+(?:\.\d+)?)", row) for row in rows}
    return sorted(parts, key=lambda row: [float(p) if i % 2 else p for i, p in enumerate(parts[row])])
