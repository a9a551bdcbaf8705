"""The folder of a run, whose ``run.json`` is written last: that file *is* completeness.

results/runs/<run id>/
    config.json           the resolved config
    metrics.jsonl         one row an update
    episodes.jsonl        one row an evaluation episode
    rollouts/*.npz        saved rollout batches, where they were asked for
    checkpoint-<update>/  the newest checkpoint
    sessions.jsonl        one row a session of work: start, commit, uncommitted changes or not
    run.json              result, versions, and a digest of every file above it that it vouches for
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bepo.core.errors import UserError
from bepo.store.files import (
    Corrupt,
    digest,
    digest_of_file,
    finite,
    read_object,
    read_rows,
    row_line,
    try_acquire,
    write_atomically,
)

FORMAT_VERSION = 1
STREAMS: tuple[str, ...] = ("metrics", "episodes")
SESSIONS = "sessions.jsonl"


class Busy(UserError):
    """Another process works on the run."""


def run_id(identity: dict[str, Any]) -> str:
    """Return 12 hex digits of the SHA-256 of everything that can change a run's result."""
    return digest(json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False), 12)


class RunFolder:
    """A run being written."""

    def __init__(self, results: Path, identifier: str) -> None:
        self.id = identifier
        self.path = results / "runs" / identifier

    @contextmanager
    def locked(self) -> Iterator[RunFolder]:
        """Hold the run; the lock dies with the process. Raises ``Busy``, or ``UserError`` if it cannot be written."""
        try:
            lock = try_acquire(self.path / ".lock")
        except OSError as error:
            raise UserError(f"results folder {self.path}: cannot be written ({error.strerror})") from error
        if lock is None:
            raise Busy(f"run {self.id} is being written by another process")
        try:
            yield self
        finally:
            lock.release()

    # --- streams -------------------------------------------------------------------------------------------

    def append(self, stream: str, *rows: dict[str, Any]) -> None:
        """Add rows to ``metrics`` or ``episodes``."""
        with (self.path / f"{stream}.jsonl").open("a") as file:
            file.write("".join(row_line(row) for row in rows))

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Read the rows that are there so far, also while another process writes them."""
        return read_rows(self.path / f"{stream}.jsonl")

    # --- checkpoints ---------------------------------------------------------------------------------------

    def checkpoint(self) -> tuple[int, Path] | None:
        """Return the update and the folder of the newest whole checkpoint, or None."""
        found = [p for p in self.path.glob("checkpoint-*") if p.suffix != ".part"]
        return max(((int(p.name.split("-")[1]), p) for p in found), default=None)

    @contextmanager
    def new_checkpoint(self, update: int) -> Iterator[Path]:
        """Yield a folder to fill; it becomes the checkpoint, and older ones go, when the block ends."""
        folder = self.path / f"checkpoint-{update}"
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        yield part
        lengths = {stream: len(self.rows(stream)) for stream in STREAMS}
        (part / "rows.json").write_text(json.dumps(lengths))
        older = [p for p in self.path.glob("checkpoint-*") if p != part]
        part.rename(folder)
        for path in older:
            shutil.rmtree(path)

    def rewind(self) -> None:
        """Drop rows later than the newest checkpoint (all, if there is none): the resumed run writes them again.

        Raises ``Corrupt``, and changes nothing, if rows from before the checkpoint are unreadable.
        """
        found = self.checkpoint()
        lengths: dict[str, int] = dict.fromkeys(STREAMS, 0)
        if found:
            lengths = json.loads((found[1] / "rows.json").read_text())
        rows = {stream: self.rows(stream)[:n] for stream, n in lengths.items()}
        for stream, kept in rows.items():
            if len(kept) < lengths[stream]:
                path = self.path / f"{stream}.jsonl"
                raise Corrupt(f"{path}: {len(kept)} readable rows, the checkpoint counts {lengths[stream]}")
        for stream, kept in rows.items():
            write_atomically(self.path / f"{stream}.jsonl", "".join(row_line(row) for row in kept))

    # --- completeness --------------------------------------------------------------------------------------

    def start(self, config: dict[str, Any], session: dict[str, Any]) -> None:
        """Note the config, and one more session of work on the run: when, and by which source."""
        write_atomically(self.path / "config.json", json.dumps(config, indent=1, sort_keys=True))
        with (self.path / SESSIONS).open("a") as file:
            file.write(row_line(session))

    def sessions(self) -> list[dict[str, Any]]:
        """Return a row for each session of work, the oldest first."""
        return read_rows(self.path / SESSIONS)

    def complete(self, facts: dict[str, Any]) -> None:
        """Write ``run.json``: the facts, and a digest of every file that it vouches for."""
        names = ["config.json", *(f"{s}.jsonl" for s in STREAMS)]
        content = {
            "format_version": FORMAT_VERSION,
            "run_id": self.id,
            **facts,
            "files": {name: digest_of_file(self.path / name) for name in names if (self.path / name).exists()},
        }
        write_atomically(self.path / "run.json", json.dumps(finite(content), indent=1, sort_keys=True))

    @property
    def is_complete(self) -> bool:
        """Was the run finished? Whether its files are still what they were, ``read_run`` tells."""
        return (self.path / "run.json").exists()

    def progress(self) -> Progress:
        """Return where the run stands; a run that says it is complete is checked."""
        rows = self.rows("metrics")
        status, problem = "partial" if (self.path / "config.json").exists() else "missing", ""
        if self.is_complete:
            status = "complete"
            try:
                read_run(self.path)
            except Corrupt as error:
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
class StoredRun:
    """A complete run, read and checked; ``facts`` is the content of its ``run.json``."""

    path: Path
    facts: dict[str, Any]
    config: dict[str, Any]

    @property
    def id(self) -> str:
        """The run id, 12 hex digits."""
        return self.facts["run_id"]

    def metrics(self) -> list[dict]:
        """Read one row for each update."""
        return read_rows(self.path / "metrics.jsonl")

    def episodes(self) -> list[dict]:
        """Read one row for each evaluation episode."""
        return read_rows(self.path / "episodes.jsonl")


def read_run(path: Path) -> StoredRun:
    """Read a complete run. Raises ``Corrupt`` naming the file at fault."""
    if not (path / "run.json").is_file():
        raise Corrupt(f"{path}: incomplete, there is no run.json")
    facts = read_object(path / "run.json", "run file")
    version, files = facts.get("format_version"), facts.get("files")
    if version != FORMAT_VERSION:
        raise Corrupt(f"{path}: run format {version}; this bepo reads {FORMAT_VERSION}")
    if not isinstance(files, dict) or facts.get("run_id") != path.name:
        raise Corrupt(f"{path / 'run.json'}: not the file of run {path.name}")
    for name, expected in files.items():
        if not (path / name).exists():
            raise Corrupt(f"{path / name}: missing")
        if digest_of_file(path / name) != expected:
            raise Corrupt(f"{path / name}: changed since the run was completed")
    return StoredRun(path, facts, read_config(path))


def read_config(path: Path) -> dict[str, Any]:
    """Read the config of a run, complete or not. Raises ``Corrupt``."""
    return read_object(path / "config.json", "config")
