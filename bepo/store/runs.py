"""The folder of a run. ``run.json`` is written last; a run is complete if it has this file.

``results/runs/<run id>/`` holds::

    config.json           the resolved config
    metrics.jsonl         one row per update
    episodes.jsonl        one row per evaluation episode
    rollouts/*.npz        rollout batches of the first, the middle and the last update, and of ``save_rollouts``
    transcripts.jsonl.gz  one row per test episode of the last policy: prompts, responses, actions and rewards
    answers.jsonl         evaluation of a served policy: one row per answer of the endpoint
    passes.json           evaluation in progress: checksum of the rows of its complete passes
    sessions.json         for each session: start, commit, whether the sources were dirty, machine, settings
    checkpoint-<update>/  the newest checkpoints; content.json has their run and update, and checksums of their files
                          and of the rows, rollouts and transcripts before them
    refused-checkpoint-*/ checkpoints that are damaged or do not belong to the run
    policy/               the policy of a finished run; content.json has checksums of its files
    run.json              result, versions, and the checksum of every file outside of checkpoint and policy folders
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bepo.core.errors import UserError
from bepo.store.answers import ANSWERS
from bepo.store.checkpoints import Checkpoints
from bepo.store.files import Corrupt, digest, digest_of_file, read_bytes, write_atomically
from bepo.store.folders import remove_leftovers, sync_folder
from bepo.store.json_files import field as field_of
from bepo.store.json_files import read_rows, read_sealed, row_line, write_sealed
from bepo.store.locks import try_acquire
from bepo.store.run_files import (
    CONTENT,
    FORMAT_VERSION,
    ROLLOUTS,
    SESSIONS,
    TRANSCRIPTS,
    StoredRun,
    read_run,
)

PASSES = "passes.json"


class Busy(UserError):
    """Another process is working on the run."""


def run_id(identity: dict[str, Any]) -> str:
    """Return the run ID: 12 hex digits of the SHA-256 of everything that can change the result of a run."""
    return digest(json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False), 12)


class RunFolder(Checkpoints):
    """The folder of a run that is being written."""

    def __init__(self, results: Path, identifier: str) -> None:
        super().__init__(identifier, results / "runs" / identifier)
        self.results = results

    @property
    def advice(self) -> str:
        """How to train a corrupt run again. No run is removed automatically."""
        return f"to train it again, remove it: python -m analysis runs delete {self.id} --results {self.results}"

    def is_locked(self) -> bool:
        """Return whether a process is working on the run."""
        if not (self.path / ".lock").exists():
            return False
        try:
            lock = try_acquire(self.path / ".lock")
        except OSError:
            return False  # ``locked`` names the error
        if lock is not None:
            lock.release()
        return lock is None

    @contextmanager
    def locked(self) -> Iterator[RunFolder]:
        """Lock the run during a ``with`` block; the lock ends with the process.

        Raises ``Busy`` if it is locked, or ``UserError`` if the folder cannot be written.
        """
        try:
            lock = try_acquire(self.path / ".lock")
        except OSError as error:
            raise UserError(f"results folder {self.path}: cannot be written ({error.strerror})") from error
        if lock is None:
            raise Busy(f"run {self.id} is being written by another process")
        try:
            for folder in (self.path, self.path / ROLLOUTS):
                remove_leftovers(folder)
            yield self
        finally:
            lock.release()

    # --- streams -------------------------------------------------------------------------------------------

    def append(self, stream: str, *rows: dict[str, Any]) -> None:
        """Add rows to ``metrics`` or ``episodes``."""
        with (self.path / f"{stream}.jsonl").open("a", encoding="utf-8") as file:
            file.write("".join(row_line(row) for row in rows))

    def rewrite(self, stream: str, rows: Iterable[dict[str, Any]]) -> None:
        """Replace all rows of ``metrics`` or ``episodes``, and remove the checksum of their passes."""
        (self.path / PASSES).unlink(missing_ok=True)
        write_atomically(self.path / f"{stream}.jsonl", "".join(map(row_line, rows)))

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Read the rows that are written so far. Another process may be writing them."""
        return read_rows(self.path / f"{stream}.jsonl")

    def note_passes(self) -> None:
        """Write checksums of the rows of ``episodes``, which must be complete passes, and of the transcripts."""
        data, file = (self.path / "episodes.jsonl").read_bytes(), self.path / TRANSCRIPTS
        sums = {"of_rows": digest(data), "of_transcripts": digest_of_file(file) if file.exists() else None}
        write_sealed(self.path / PASSES, {"run": self.id, "bytes": len(data), **sums})

    def rows_of_passes(self) -> list[dict[str, Any]]:
        """Return the rows of ``episodes`` that ``note_passes`` has seen. Raises ``Corrupt`` if they changed."""
        if not (self.path / PASSES).exists():
            return []
        path, noted = self.path / "episodes.jsonl", read_sealed(self.path / PASSES, "list of passes")
        data = read_bytes(path, "file of rows")[: noted["bytes"]]
        if noted["run"] != self.id or digest(data) != noted["of_rows"]:
            raise Corrupt(f"{path}: changed since it was written; remove it and {PASSES} to play the passes again")
        kept = self.path / TRANSCRIPTS
        if (expected := noted.get("of_transcripts")) and kept.exists() and digest_of_file(kept) != expected:
            raise Corrupt(f"{kept}: changed since it was written; remove it and {PASSES} to play the passes again")
        return [json.loads(line) for line in data.splitlines()]

    def write_transcripts(self, episodes: Iterable[dict[str, Any]]) -> None:
        """Write one row per episode, and overwrite earlier transcripts."""
        lines = "".join(row_line(episode) for episode in episodes)
        write_atomically(self.path / TRANSCRIPTS, gzip.compress(lines.encode(), mtime=0))

    # --- checkpoints ---------------------------------------------------------------------------------------

    def continue_from(self, other: RunFolder, update: int) -> None:
        """Copy the checkpoint of an update, rows, rollouts and sessions of another run, which kept this checkpoint.

        Raises ``Corrupt`` if the checkpoint is not intact.
        """
        checkpoint = dict(other.checkpoints())[update]
        other._intact(update, checkpoint)
        for stream in other._streams():
            shutil.copy(other.path / f"{stream}.jsonl", self.path)
        if (other.path / ROLLOUTS).exists():
            shutil.copytree(other.path / ROLLOUTS, self.path / ROLLOUTS, dirs_exist_ok=True)
        before = other.sessions()  # a kill after this line leaves them here, and this method is called again
        self._write_sessions([*before, *(session for session in self.sessions() if session not in before)])
        part = self.path / f"checkpoint-{update}.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(checkpoint, part)
        content = read_sealed(part / CONTENT, "list of files")
        if "kept" in content:
            content["kept"] = {name: sha for name, sha in content["kept"].items() if name != TRANSCRIPTS}
        write_sealed(part / CONTENT, content | {"run": self.id})
        sync_folder(part)
        part.rename(part.with_suffix(""))

    # --- completeness --------------------------------------------------------------------------------------

    def start(self, config: dict[str, Any], session: dict[str, Any]) -> None:
        """Write the config, and add a session of work on the run."""
        write_sealed(self.path / "config.json", config)
        self._write_sessions([*self.sessions(), session])

    def _write_sessions(self, sessions: list[dict[str, Any]]) -> None:
        write_sealed(self.path / SESSIONS, {"sessions": sessions})

    def sessions(self) -> list[dict[str, Any]]:
        """Return the metadata of each session of work, the oldest first. Raises ``Corrupt``."""
        path = self.path / SESSIONS
        return field_of(read_sealed(path, "list of sessions"), "sessions", list, path) if path.exists() else []

    def reopen(self) -> None:
        """Make a complete run incomplete again, such as an evaluation with missing episodes."""
        (self.path / "run.json").unlink(missing_ok=True)

    def complete(self, metadata: dict[str, Any]) -> None:
        """Write ``run.json``: the metadata, with digest and size of every file outside of folders and of rollouts."""
        streams = [f"{stream}.jsonl" for stream in self._streams()]
        optional = [name for name in (TRANSCRIPTS, ANSWERS) if (self.path / name).exists()]
        names = ["config.json", SESSIONS, *streams, *optional]
        names += [str(path.relative_to(self.path)) for path in sorted((self.path / ROLLOUTS).glob("*.npz"))]
        digests = {name: digest_of_file(self.path / name) for name in names}
        sizes = {name: (self.path / name).stat().st_size for name in names}
        content = {"format_version": FORMAT_VERSION, "run_id": self.id, **metadata, "files": digests, "sizes": sizes}
        write_sealed(self.path / "run.json", content)

    @property
    def is_complete(self) -> bool:
        """Whether the run was finished. ``read_run`` checks its files."""
        return (self.path / "run.json").exists()

    def progress(self, *, hashed: bool = True) -> Progress:
        """Return the progress of the run. A complete run is checked as by ``read_run``."""
        status = "partial" if (self.path / "config.json").exists() else "missing"
        try:
            if not self.is_complete:
                rows = self.rows("metrics")
                return Progress(status, len(rows), rows[-1] if rows else {})
            run = read_run(self.path, hashed=hashed)
        except Corrupt as error:
            return Progress("corrupt", problem=str(error))
        result = run.metadata.get("result", {})
        if not isinstance(result, dict):
            return Progress("corrupt", problem=f"{self.path}: its result is not an object: {str(result)[:80]!r}")
        return Progress("partial" if result.get("missing") else "complete", result.get("updates", 0), run=run)


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    status: Literal["complete", "partial", "missing", "corrupt"]
    updates: int = 0  # number of updates made
    last: dict[str, Any] = field(default_factory=dict)  # the newest row of a run in progress
    problem: str = ""  # what is wrong with a corrupt run
    run: StoredRun | None = None  # a complete run, as it was read and checked
