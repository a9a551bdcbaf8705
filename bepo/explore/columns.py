"""The rows of runs as tables, and the store from which those of published runs are read.

The store is a Parquet file in ``$BEPO_CACHE/runs`` (``bepo.store.cache``). It has a row for each archive of a folder of
published runs: its ID, the SHA-256 of its bytes, ``run.json``, the config, and every column of ``metrics`` and
``episodes`` as a list. All archives are hashed when the store is opened, so one that is new, changed or replaced is
unpacked again. Another folder, or another version of the code that reads archives, has another store. What cannot be
read is never stored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bepo.core.forks import map_in_forks
from bepo.core.places import cache_folder
from bepo.store import archive, checked, json_files, run_files
from bepo.store.archive import ArchivedRun, read_archive
from bepo.store.cache import load, save
from bepo.store.files import Corrupt, digest_of_file
from bepo.store.published import PublishedRuns
from bepo.store.run_files import STREAMS, StoredRun

_GROUP = 64
"""Runs that are unpacked together."""
_MANY = 50
"""Archives whose reading is announced, and done on all cores."""
_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "str": pa.string()}
_KINDS = {"b": "bool", "i": "int", "f": "float", "O": "str"}  # by numpy's; arrays of objects have texts alone
_READERS = (__file__, archive.__file__, checked.__file__, json_files.__file__, run_files.__file__)


@dataclass
class ColumnRun(ArchivedRun):
    """A published run whose tables come from the store. Everything else is read from its archive."""

    table: Callable[[str], pd.DataFrame] = field(kw_only=True, repr=False, compare=False)

    def columns(self, stream: str) -> dict[str, list[Any]]:
        """Return a stream as columns of equal length. A metric that is not a number is None."""
        table = self.table(stream)
        stored = {str(name): column.tolist() for name, column in table.items() if name != "final"}
        floats = {str(name) for name, kind in table.dtypes.items() if kind == np.float64}
        return {n: [None if isnan(x) else x for x in column] if n in floats else column for n, column in stored.items()}


def table_of(run: StoredRun, stream: str) -> pd.DataFrame:
    """Return ``metrics`` or ``episodes`` of a run: one row per update or episode. Raises ``Corrupt``.

    ``metrics`` are numbers; other values are nan. ``episodes`` have ``final``: whether the policy after the newest
    update played.
    """
    if isinstance(run, ColumnRun):
        return run.table(stream)
    return pd.DataFrame({name: _for_frame(column) for name, column in _arrays(run, stream).items()})


def _arrays(run: StoredRun, stream: str) -> dict[str, Any]:
    """Return the columns of ``table_of`` as arrays; those of several types are lists."""
    if stream == "metrics":
        return {name: _numbers(column) for name, column in run.columns(stream).items()}
    columns = {name: _texts_or_numbers(column) for name, column in run.columns(stream).items()}
    return columns | {"final": np.asarray(columns.get("update", [])) == run.updates}


def _for_frame(column: Any) -> Any:
    """Return a column for a frame. Naming the type of texts is much faster than having pandas find it."""
    return pd.Series(column, dtype=object) if isinstance(column, np.ndarray) and column.dtype == object else column


def _texts_or_numbers(column: list[Any]) -> Any:
    """Return a column of episodes as an array, or unchanged if it has several types."""
    kinds = set(map(type, column))
    if kinds == {str}:
        return np.array(column, object)
    return np.array(column) if kinds in ({int}, {float}, {bool}) else column


def _numbers(column: list[Any]) -> np.ndarray:
    """Return a logged column as numbers; other values are nan."""
    kinds = set(map(type, column))
    if kinds in ({int}, {float}, {bool}):
        return np.array(column)
    return np.array([value if isinstance(value, int | float) else nan for value in column], float)


def stored_archives() -> Callable[[Path], StoredRun]:
    """Return a reader of published archives, which opens the store of each folder once."""
    opened = cache(lambda folder: PublishedColumns(PublishedRuns(folder)))
    return lambda path: opened(path.parent).run(path.stem)


class PublishedColumns:
    """The published runs of a folder, read from the store. The first run that is read makes or completes the store."""

    def __init__(self, published: PublishedRuns) -> None:
        self.published = published
        self._texts: dict[int, list[dict[str, str]]] = {}
        self._tables: dict[tuple[int, str], list[pd.DataFrame]] = {}

    def run(self, run_id: str) -> ArchivedRun:
        """Return a run. Raises ``Corrupt``."""
        path = self.published.archive(run_id)
        stored, places = self._opened
        if stored is None or run_id not in places:
            return read_archive(path)  # damaged, or with values that no column holds
        group, member = divmod(places[run_id], _GROUP)
        if group not in self._texts:
            texts = ["metadata", "config", "shapes"]
            self._texts[group] = stored.read_row_group(group, texts, use_threads=False).to_pylist()  # also in a fork
        metadata, config = (json.loads(self._texts[group][member][name]) for name in ("metadata", "config"))
        return ColumnRun(path, metadata, config, table=lambda stream: self._group(stored, group, stream)[member])

    def _group(self, stored: pq.ParquetFile, group: int, stream: str) -> list[pd.DataFrame]:
        """Return a table of each run of a group."""
        if (group, stream) not in self._tables:
            shapes = [tuple(json.loads(texts["shapes"])[stream]) for texts in self._texts[group]]
            names = list(dict.fromkeys(name for shape in shapes for name in shape))
            self._tables[group, stream] = _tables(stored.read_row_group(group, names, use_threads=False), shapes)
        return self._tables[group, stream]

    @cached_property
    def archives(self) -> Mapping[str, str]:
        """The SHA-256 of every archive, by run ID."""
        return dict(self._digests())

    @cached_property
    def _opened(self) -> tuple[pq.ParquetFile | None, Mapping[str, int]]:
        """The store, and the row of each run in it whose archive is as it was when it was stored."""
        archives, stored = self.archives, _read(self._key)
        places = _places(stored, archives)
        missing = [run_id for run_id in archives if run_id not in places]
        if many := len(missing) > _MANY:
            folder = cache_folder("runs")
            print(f"reading {len(missing)} published runs; their rows are kept in {folder}", file=sys.stderr)
        rows = (map_in_forks if many else map)(lambda run: self._row(run, archives[run]), missing)
        if added := [row for row in rows if row]:
            kept = [stored.read().take(pa.array(sorted(places.values()), pa.int64()))] if stored else []
            data = _parquet(pa.concat_tables([*kept, _table(added)], promote_options="default"))
            save("runs", self._key, data)
            stored = pq.ParquetFile(pa.BufferReader(data))
            places = _places(stored, archives)
        return stored, places

    @property
    def _key(self) -> tuple[str, ...]:
        """What the store depends on: the folder, and the code that reads archives."""
        code = (Path(path).read_text(encoding="utf-8") for path in _READERS)
        return (str(self.published.folder.resolve()), pa.__version__, *code)

    def _digests(self) -> Iterator[tuple[str, str]]:
        for run_id in self.published.ids():
            with suppress(Corrupt, OSError):
                yield run_id, digest_of_file(self.published.archive(run_id))

    def _row(self, run_id: str, sha256: str) -> dict[str, Any] | None:
        """Return the row of a run; None if it cannot be read, or if a value fits no column."""
        try:
            run = self.published.run(run_id)
            tables = {stream: _arrays(run, stream) for stream in STREAMS}
        except (Corrupt, ValueError, TypeError, OverflowError):
            return None
        row: dict[str, Any] = {"id": run_id, "sha256": sha256}
        row |= {"metadata": json.dumps(run.metadata), "config": json.dumps(run.config)}
        shapes: dict[str, list[str]] = {stream: [] for stream in STREAMS}
        for stream, columns in tables.items():
            for name, column in columns.items():
                kind = _KINDS.get(column.dtype.kind) if isinstance(column, np.ndarray) else None
                if kind is None:
                    return None
                shapes[stream].append(f"{stream} {kind} {name}")
                row[shapes[stream][-1]] = column
        env, credit = (run.config.get(part, {}).get("name") for part in ("env", "credit"))
        place = f"{env} {run.config.get('model')} {credit} {run_id}"  # runs of one table are near each other
        return row | {"place": place, "shapes": json.dumps(shapes)}


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table. Arrays become lists, and a column that a row does not have is null there."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            columns[name] = pa.array(values, pa.string())
            continue
        arrays = [value for value in values if value is not None]
        ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
        flat = pa.array(np.concatenate(arrays), _TYPES[name.split(" ")[1]])
        absent = pa.array([value is None for value in values])
        columns[name] = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat, mask=absent)
    return pa.table(columns)


def _tables(rows: pa.Table, shapes: Sequence[Sequence[str]]) -> list[pd.DataFrame]:
    """Return a table for each row of a group. Those with the same columns are slices of one."""
    tables: dict[int, pd.DataFrame] = {}
    for shape in dict.fromkeys(shapes):
        members = [number for number, other in enumerate(shapes) if other == shape]
        part = rows.select(list(shape)) if len(members) == len(shapes) else rows.select(list(shape)).take(members)
        lists = {name: part[name].combine_chunks() for name in shape}
        whole = pd.DataFrame({name.split(" ", 2)[2]: _column(column.flatten()) for name, column in lists.items()})
        ends = next(iter(lists.values())).offsets.to_numpy() if lists else np.zeros(len(members) + 1, int)
        for number, (start, end) in zip(members, pairwise(ends - ends[0])):
            tables[number] = whole.iloc[start:end]
            tables[number].index = pd.RangeIndex(end - start)
    return [tables[number] for number in range(len(shapes))]


def _column(values: pa.Array) -> np.ndarray | pd.Series:
    if not pa.types.is_string(values.type):
        return values.to_numpy(zero_copy_only=False)
    coded = values.dictionary_encode()
    return _for_frame(np.array(coded.dictionary.to_pylist(), object)[coded.indices.to_numpy()])


def _places(stored: pq.ParquetFile | None, archives: Mapping[str, str]) -> dict[str, int]:
    """Return the row of each run of the store whose archive has the digest that is stored."""
    rows = stored.read(["id", "sha256"]).to_pylist() if stored else []
    return {row["id"]: place for place, row in enumerate(rows) if archives.get(row["id"]) == row["sha256"]}


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table.sort_by("place"), sink, row_group_size=_GROUP, compression="zstd", write_statistics=False)
    return sink.getvalue().to_pybytes()


def _read(key: tuple[str, ...]) -> pq.ParquetFile | None:
    """Return the store with this key, or None."""
    data = load("runs", key)
    with suppress(pa.ArrowException):
        return pq.ParquetFile(pa.BufferReader(data)) if data else None
