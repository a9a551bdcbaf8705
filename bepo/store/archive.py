"""Archives of complete runs: one zip file each, which stores rows as columns and unpacks to the same bytes."""

from __future__ import annotations

import io
import json
import lzma
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError
from bepo.store.checked import check_columns, check_config, check_metadata_types, check_packed, numbers
from bepo.store.files import MOST_BYTES, Corrupt, check_regular, digest, write_atomically
from bepo.store.json_files import field as field_of
from bepo.store.json_files import row_line, unsealed, with_digest
from bepo.store.run_files import (
    CONFIG,
    CONTENT,
    RUN,
    SESSIONS,
    STREAMS,
    TRANSCRIPTS,
    Rows,
    StoredRun,
    check_metadata,
    read_folder_of_run,
)

POLICIES = "policies"
"""The folder beside the archives that holds the policies of some runs."""
_MOST_FILES = 10_000
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # a constant, so that equal content gives equal bytes


@dataclass
class ArchivedRun(StoredRun):
    """A complete run, read from an archive: ``path`` is the zip file.

    Most archives hold no transcripts and no rollouts. A published policy is in the folder ``policies/<run id>`` beside
    the archive. ``unread``: the streams that were unpacked to check the archive and not asked for since.
    """

    unread: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def stored_rows(self, stream: str) -> Rows:
        """Read the rows of ``metrics`` or ``episodes`` as they are stored."""
        return _unpacked(self._stream(stream))

    def _stream(self, stream: str) -> dict[str, Any]:
        """Return a packed stream. The first time it is taken from what the check of the archive unpacked."""
        name = f"{stream}.json"
        try:
            packed = json.loads(self.unread.pop(name, None) or _read(self.path, name)[name])
        except (ValueError, RecursionError) as error:
            raise Corrupt(f"{self.path}: {name} is not JSON ({error})") from None
        check_packed(packed, self.path / name)
        check_columns(packed["columns"], stream, self.path)
        return packed

    def columns(self, stream: str) -> dict[str, list[Any]]:
        """Read a stream as columns of equal length, without making rows. A row without a column has None there.

        A metric that is not a number is None.
        """
        columns = _filled(self._stream(stream))
        return columns if stream != "metrics" else {name: [*numbers(values)] for name, values in columns.items()}

    def names(self) -> list[str]:
        """Return the names of the files in the archive."""
        with zipfile.ZipFile(self.path) as file:
            return sorted(file.namelist())

    def read(self, name: str) -> bytes:
        """Read a file. Raises ``Corrupt``."""
        return _read(self.path, name)[name]

    def policy(self) -> Path:
        """Return the folder of the policy. Raises ``UserError`` if it is not published or its files changed."""
        folder = self.path.parent / POLICIES / self.id
        if not folder.exists():
            with_one = ", ".join(sorted(path.name for path in folder.parent.glob("*"))) or "none"
            raise UserError(
                f"run {self.id}: its policy is not published; choices: {with_one} (the policies of all runs would make "
                "a clone too large; to evaluate another run, train it again)"
            )
        read_folder_of_run(folder, self.id)
        return folder


def write_archive(run: StoredRun, path: Path, complete: bool = False) -> None:
    """Write an archive of a run; a ``complete`` archive also holds rollouts and transcripts.

    Raises ``Corrupt`` if the archive would not unpack to the rows of the run.
    """
    members = {name: run.read(name) for name in (CONFIG, SESSIONS, RUN)}
    for stream in STREAMS:
        packed = _packed(run.stored_rows(stream))
        if digest(_text(_unpacked(packed))) != run.metadata["files"][f"{stream}.jsonl"]:
            raise Corrupt(f"{run.path}: {stream}.jsonl cannot be archived, it would not unpack to the same rows")
        members[f"{stream}.json"] = json.dumps(packed, separators=(",", ":")).encode()
    if complete:
        members |= {name: run.read(name) for name in run.metadata["files"] if name == TRANSCRIPTS or "/" in name}
    members[CONTENT] = with_digest({"files": {name: digest(data) for name, data in members.items()}}).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name, _NO_TIME), data, zipfile.ZIP_LZMA)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def read_archive(path: Path) -> ArchivedRun:
    """Read an archive whose file name is the run ID, and check all of its files. Raises ``Corrupt``."""
    return _run_of(path, _members(path))


def _members(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by name, checked against its list of files. Raises ``Corrupt``."""
    members = _read(path)
    content = unsealed(members.pop(CONTENT, b""), path / CONTENT, "list of files")
    files = field_of(content, "files", dict, path / CONTENT)
    if others := members.keys() ^ files.keys():
        raise Corrupt(f"{path}: {min(others)} is not both in the archive and in its list of files")
    for name, expected in files.items():
        if digest(members[name]) != expected:
            raise Corrupt(f"{path}: {name} changed since it was packed")
    return members


def _run_of(path: Path, members: dict[str, bytes]) -> ArchivedRun:
    """Return the run that an archive's files make. Raises ``Corrupt``."""
    metadata, config = (
        unsealed(members.get(name, b""), path / name, what) for name, what in ((RUN, "run file"), (CONFIG, "config"))
    )
    check_metadata(metadata, path, path.stem)
    check_metadata_types(metadata, path / RUN)
    check_config(config, path / CONFIG)
    streams = {name: members[name] for name in (f"{stream}.json" for stream in STREAMS) if name in members}
    return ArchivedRun(path, metadata, config, streams)


def check_archive(path: Path) -> ArchivedRun:
    """Read an archive, and compare every unpacked file with its digest in ``run.json``. Raises ``Corrupt``."""
    members = _members(path)
    run = _run_of(path, members)
    files: dict[str, str | bytes] = {name: data for name, data in members.items() if name in run.metadata["files"]}
    files |= {f"{stream}.jsonl": _text(run.stored_rows(stream)) for stream in STREAMS}
    for name, data in files.items():
        if digest(data) != run.metadata["files"].get(name):
            raise Corrupt(f"{path}: {name} does not match its digest in run.json")
    return run


def _text(rows: Rows) -> str:
    return "".join(map(row_line, rows))


def _read(path: Path, *names: str) -> dict[str, bytes]:
    """Read files of an archive; without names, all of them. Raises ``Corrupt``."""
    check_regular(path, "run's archive")
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            if len(members) > _MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
                raise Corrupt(f"{path}: unpacks to more than {_MOST_FILES} files or {MOST_BYTES} bytes")
            return {name: file.read(name) for name in names or file.namelist()}
    except (zipfile.BadZipFile, lzma.LZMAError, OSError, EOFError, KeyError, ValueError, RuntimeError) as error:
        raise Corrupt(f"{path}: not an archive of a run ({error})") from None


def _packed(rows: Rows) -> dict[str, Any]:
    """Return rows as columns. ``shapes`` holds lists of column names; ``shape`` is the index of each row's list."""
    shapes: dict[tuple[str, ...], int] = {}
    shape = [shapes.setdefault(tuple(row), len(shapes)) for row in rows]
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return {"shapes": list(shapes), "shape": shape, "columns": columns}


def _unpacked(packed: dict[str, Any]) -> Rows:
    values = {name: iter(column) for name, column in packed["columns"].items()}
    return [{name: next(values[name]) for name in packed["shapes"][i]} for i in packed["shape"]]


def _filled(packed: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of packed rows, with None in the rows that do not have a column."""
    shapes = [frozenset(names) for names in packed["shapes"]]
    rows = len(packed["shape"])
    columns = {}
    for name, column in packed["columns"].items():
        values = iter(column)
        whole = len(column) == rows
        columns[name] = column if whole else [next(values) if name in shapes[i] else None for i in packed["shape"]]
    return columns
