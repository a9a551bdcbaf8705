"""The run record: one self-describing folder a run, whose ``record.json`` is written last. Standard library only.

results/runs/<run_id>/
    config.json          the resolved config
    metrics.jsonl        one row an update
    episodes.jsonl       one row an evaluation episode
    rollouts/*.npz       saved rollout groups, when asked for
    checkpoint-<update>/ the newest checkpoint
    sessions.jsonl       one row a session of work: start, commit, dirty flag
    record.json          written last and atomically: it is completeness
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bepo.errors import UserError

FORMAT_VERSION = 1
STREAMS = ("metrics", "episodes")
SESSIONS = "sessions.jsonl"


class Busy(UserError):
    """Another process holds the run."""


class CorruptRecord(UserError):
    """A folder that is not the record it claims to be."""


def run_id(identity: dict[str, Any]) -> str:
    """12 hex digits of the SHA-256 of everything that can change a run's result."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class RunFolder:
    """A run being written."""

    def __init__(self, results: Path, identifier: str) -> None:
        self.id = identifier
        self.path = results / "runs" / identifier

    @contextmanager
    def locked(self) -> Iterator[RunFolder]:
        """Hold the run; the lock dies with the process. Raises ``Busy``, or ``UserError`` if it cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = (self.path / ".lock").open("w")
        except OSError as error:
            raise UserError(f"results folder {self.path}: cannot be written ({error.strerror})") from error
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Busy(f"run {self.id} is being written by another process") from None
            yield self

    # --- streams -------------------------------------------------------------------------------------------

    def append(self, stream: str, *rows: dict[str, Any]) -> None:
        with (self.path / f"{stream}.jsonl").open("a") as file:
            file.write("".join(_line(row) for row in rows))

    # --- checkpoints ---------------------------------------------------------------------------------------

    def checkpoint(self) -> tuple[int, Path] | None:
        """Update and folder of the newest whole checkpoint."""
        found = [p for p in self.path.glob("checkpoint-*") if p.suffix != ".part"]
        return max(((int(p.name.split("-")[1]), p) for p in found), default=None)

    @contextmanager
    def new_checkpoint(self, update: int) -> Iterator[Path]:
        """A folder to fill; it becomes the checkpoint, and older ones go, when the block ends."""
        folder = self.path / f"checkpoint-{update}"
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        yield part
        lengths = {s: len(_whole_rows(self.path / f"{s}.jsonl")) for s in STREAMS}
        (part / "rows.json").write_text(json.dumps(lengths))
        older = [p for p in self.path.glob("checkpoint-*") if p != part]
        part.rename(folder)
        for path in older:
            shutil.rmtree(path)

    def rewind(self) -> None:
        """Drop rows later than the newest checkpoint (all, if there is none): the resumed run writes them again.

        Raises ``CorruptRecord``, and changes nothing, if rows from before the checkpoint are unreadable.
        """
        found = self.checkpoint()
        lengths = json.loads((found[1] / "rows.json").read_text()) if found else dict.fromkeys(STREAMS, 0)
        rows = {stream: _whole_rows(self.path / f"{stream}.jsonl")[:n] for stream, n in lengths.items()}
        for stream, kept in rows.items():
            if len(kept) < lengths[stream]:
                path = self.path / f"{stream}.jsonl"
                raise CorruptRecord(f"{path}: {len(kept)} readable rows, the checkpoint counts {lengths[stream]}")
        for stream, kept in rows.items():
            write_atomically(self.path / f"{stream}.jsonl", "".join(_line(row) for row in kept))

    # --- completeness --------------------------------------------------------------------------------------

    def start(self, config: dict[str, Any], session: dict[str, Any]) -> None:
        """Note the config, and one more session of work on the run: when, and by which source."""
        write_atomically(self.path / "config.json", json.dumps(config, indent=1, sort_keys=True))
        with (self.path / SESSIONS).open("a") as file:
            file.write(_line(session))

    def sessions(self) -> list[dict[str, Any]]:
        return _whole_rows(self.path / SESSIONS)

    def complete(self, facts: dict[str, Any]) -> None:
        """Write ``record.json``: the facts, and a digest of every file that it vouches for."""
        names = ["config.json", *(f"{s}.jsonl" for s in STREAMS)]
        record = {
            "format_version": FORMAT_VERSION,
            "run_id": self.id,
            **facts,
            "files": {name: _digest(self.path / name) for name in names if (self.path / name).exists()},
        }
        write_atomically(self.path / "record.json", json.dumps(_clean(record), indent=1, sort_keys=True))

    @property
    def is_complete(self) -> bool:
        return (self.path / "record.json").exists()

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """What is there so far, also while another process writes it."""
        return _whole_rows(self.path / f"{stream}.jsonl")

    def progress(self) -> Progress:
        """Where the run stands; a record that says it is complete is checked."""
        rows = self.rows("metrics")
        status, problem = "partial" if (self.path / "config.json").exists() else "missing", ""
        if self.is_complete:
            status = "complete"
            try:
                read(self.path)
            except CorruptRecord as error:
                status, problem = "corrupt", str(error)
        return Progress(status, len(rows), rows[-1] if rows else {}, problem)


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    status: Literal["complete", "partial", "missing", "corrupt"]
    updates: int  # rows written
    last: dict[str, Any] = field(default_factory=dict)  # the newest of them
    problem: str = ""  # what is wrong with a corrupt one


@dataclass
class Record:
    """A complete run, read and checked."""

    path: Path
    facts: dict[str, Any]
    config: dict[str, Any]

    @property
    def id(self) -> str:
        return self.facts["run_id"]

    def metrics(self) -> list[dict]:
        return _whole_rows(self.path / "metrics.jsonl")

    def episodes(self) -> list[dict]:
        return _whole_rows(self.path / "episodes.jsonl")


def read(path: Path) -> Record:
    """A complete record. Raises ``CorruptRecord`` naming the file at fault."""
    if not (path / "record.json").is_file():
        raise CorruptRecord(f"{path}: incomplete, there is no record.json")
    facts = _object(path / "record.json", "run record")
    version, files = facts.get("format_version"), facts.get("files")
    if version != FORMAT_VERSION:
        raise CorruptRecord(f"{path}: record format {version}; this bepo reads {FORMAT_VERSION}")
    if not isinstance(files, dict) or facts.get("run_id") != path.name:
        raise CorruptRecord(f"{path / 'record.json'}: not the record of run {path.name}")
    for name, digest in files.items():
        if not (path / name).exists():
            raise CorruptRecord(f"{path / name}: missing")
        if _digest(path / name) != digest:
            raise CorruptRecord(f"{path / name}: changed since the run was recorded")
    return Record(path, facts, read_config(path))


def read_config(path: Path) -> dict[str, Any]:
    """The config of a run, complete or not. Raises ``CorruptRecord``."""
    return _object(path / "config.json", "config")


def _object(path: Path, what: str) -> dict[str, Any]:
    """A JSON object from a file. Raises ``CorruptRecord``."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CorruptRecord(f"{path}: not a {what} ({error})") from None
    if not isinstance(found, dict):
        raise CorruptRecord(f"{path}: not a {what}, but {json.dumps(found)[:40]}")
    return found


def read_cell(path: Path) -> dict[str, Any]:
    """A study's cell, ``{"run_id": ..., "overrides": [...]}``. Raises ``CorruptRecord``."""
    cell = {"overrides": []} | _object(path, "study cell")
    if not isinstance(cell.get("run_id"), str) or "/" in cell["run_id"]:
        raise CorruptRecord(f"{path}: not a study cell, it names no run")
    return cell


def note_cell(results: Path, study: str, scale: str, overrides: list[str], run_id: str) -> None:
    """Say that this cell of a study is now this run. A cell that was planned otherwise before points here from now."""
    name = hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:12]
    path = results / "studies" / study / scale / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"overrides": sorted(overrides), "run_id": run_id}, indent=1))


def cells(results: Path) -> Iterator[tuple[Path, str]]:
    """Every study cell that can be read, with the id of the run it points at."""
    for path in sorted(results.glob("studies/*/*/*.json")):
        with suppress(CorruptRecord):
            yield path, read_cell(path)["run_id"]


def belongings(results: Path, identifier: str) -> Iterator[Path]:
    """Files of a complete record: those that it vouches for, itself, and the study cells that point at it."""
    folder = results / "runs" / identifier
    files = json.loads((folder / "record.json").read_text())["files"]
    yield from (folder / name for name in sorted(files))
    yield folder / "record.json"
    yield from (path for path, run in cells(results) if run == identifier)


def source_state() -> dict[str, Any]:
    """Commit and dirty flag of the source tree; both None outside a git checkout."""
    root = Path(__file__).parent

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    status = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never a part."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _whole_rows(path: Path) -> list[dict]:
    """Rows of a JSONL file up to the first torn line, which a killed writer can leave at the end."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    try:
        rows = json.loads(f"[{','.join(lines)}]")  # at once: several times faster than line by line
    except ValueError:
        rows = []
    if len(rows) == len(lines):
        return rows
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _line(row: dict[str, Any]) -> str:
    return json.dumps(_clean(row), allow_nan=False) + "\n"


def _clean(value: Any) -> Any:
    """Numbers that JSON cannot hold become null."""
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
