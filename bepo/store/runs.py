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
    checkpoint-<update>/  the newest checkpoints; content.json has checksums of their files and of earlier rows
    policy/               the policy of a finished run; content.json has checksums of its files
    run.json              result, versions, and the checksum of every file outside of checkpoint and policy folders
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bepo.core.errors import UserError
from bepo.store.answers import ANSWERS
from bepo.store.files import Corrupt, digest, digest_of_file, read_bytes, write_atomically
from bepo.store.folders import link_or_copy, make_space, remove_leftovers, seal_folder, sync_folder
from bepo.store.json_files import read_rows, read_sealed, row_line, write_sealed
from bepo.store.locks import try_acquire
from bepo.store.run_files import (
    CONTENT,
    FORMAT_VERSION,
    ROLLOUTS,
    SESSIONS,
    STREAMS,
    TRANSCRIPTS,
    StoredRun,
    read_folder_of_run,
    read_run,
)

PASSES = "passes.json"


class Busy(UserError):
    """Another process is working on the run."""


def run_id(identity: dict[str, Any]) -> str:
    """Return the run ID: 12 hex digits of the SHA-256 of everything that can change the result of a run."""
    return digest(json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False), 12)


class RunFolder:
    """The folder of a run that is being written."""

    def __init__(self, results: Path, identifier: str) -> None:
        self.id, self.results = identifier, results
        self.path = results / "runs" / identifier

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
        """Write the checksum of the rows of ``episodes``, which must be complete passes of an evaluation."""
        data = (self.path / "episodes.jsonl").read_bytes()
        write_sealed(self.path / PASSES, {"run": self.id, "bytes": len(data), "of_rows": digest(data)})

    def rows_of_passes(self) -> list[dict[str, Any]]:
        """Return the rows of ``episodes`` that ``note_passes`` has seen. Raises ``Corrupt`` if they changed."""
        if not (self.path / PASSES).exists():
            return []
        path, noted = self.path / "episodes.jsonl", read_sealed(self.path / PASSES, "list of passes")
        data = read_bytes(path, "file of rows")[: noted["bytes"]]
        if noted["run"] != self.id or digest(data) != noted["of_rows"]:
            raise Corrupt(f"{path}: changed since it was written; remove it and {PASSES} to play the passes again")
        return [json.loads(line) for line in data.splitlines()]

    def write_transcripts(self, episodes: Iterable[dict[str, Any]]) -> None:
        """Write one row per episode, and overwrite earlier transcripts."""
        lines = "".join(row_line(episode) for episode in episodes)
        write_atomically(self.path / TRANSCRIPTS, gzip.compress(lines.encode(), mtime=0))

    # --- checkpoints ---------------------------------------------------------------------------------------

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Return the update and the folder of each finished checkpoint, the newest first. Files are not checked."""
        numbered = ((path.name.removeprefix("checkpoint-"), path) for path in self.path.glob("checkpoint-*"))
        found = ((int(number), path) for number, path in numbered if number.isdecimal() and path.is_dir())
        return sorted(found, reverse=True)

    @contextmanager
    def new_checkpoint(self, update: int, keep: int = 2) -> Iterator[Path]:
        """Yield a folder to fill. It becomes a checkpoint when the block ends; the newest ``keep`` checkpoints stay.

        If the disk is too full for one more checkpoint, older ones are removed first, with a line on stderr. The newest
        is removed only with ``keep=0``. The new checkpoint always stays.
        """
        folder = self.path / f"checkpoint-{update}"
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        make_space([path for _, path in self.checkpoints()], keep)
        part.mkdir()
        try:
            yield part
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)  # a full disk needs the space
            raise
        rows = {stream: (self.path / f"{stream}.jsonl").read_bytes() for stream in self._streams()}
        lengths = {stream: {"bytes": len(data), "digest": digest(data)} for stream, data in rows.items()}
        seal_folder(part, CONTENT, run=self.id, rows=lengths)
        part.rename(folder)
        self.drop_checkpoints(max(keep, 1))

    def drop_checkpoints(self, keep: int = 0) -> None:
        """Remove all but the newest ``keep`` checkpoints."""
        for _, path in self.checkpoints()[keep:]:
            shutil.rmtree(path)

    def keep_policy(self, folder: Path) -> None:
        """Store a folder with the policy, in the format of transformers, as ``policy``.

        Files are hard links to those in ``folder``, or copies if the file system has no hard links.
        """
        part = self.path / "policy.part"
        for old in (part, self.path / "policy"):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(folder, part, copy_function=link_or_copy)
        seal_folder(part, CONTENT, run=self.id)
        part.rename(self.path / "policy")

    def continue_from(self, other: RunFolder) -> None:
        """Copy the newest checkpoint, rows, rollouts and sessions of another run, which kept its checkpoint."""
        update, checkpoint = other.checkpoints()[0]
        for stream in other._streams():
            shutil.copy(other.path / f"{stream}.jsonl", self.path)
        if (other.path / ROLLOUTS).exists():
            shutil.copytree(other.path / ROLLOUTS, self.path / ROLLOUTS, dirs_exist_ok=True)
        self._write_sessions([*other.sessions(), *self.sessions()])
        part = self.path / f"checkpoint-{update}.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(checkpoint, part)
        write_sealed(part / CONTENT, read_sealed(part / CONTENT, "list of files") | {"run": self.id})
        sync_folder(part)
        part.rename(part.with_suffix(""))

    def rewind(self) -> tuple[int, Path] | None:
        """Return the newest intact checkpoint, and drop later rows, which the run writes again.

        Damaged checkpoints are skipped with a line on stderr. Without a checkpoint, return None and drop all rows.
        Raises ``Corrupt`` if all checkpoints are damaged, and changes nothing then.
        """
        problems = []
        for update, path in self.checkpoints():
            try:
                lengths = self._intact(path)
            except Corrupt as error:
                problems.append(str(error))
                continue
            for problem in problems:
                print(f"{problem}; continuing from update {update}", file=sys.stderr)
            self._truncate(lengths)
            return update, path
        if problems:
            raise Corrupt(f"{problems[0]}; no checkpoint is intact; remove {self.path} to train from the beginning")
        self._truncate({})
        return None

    def _intact(self, path: Path) -> dict[str, int]:
        """Return the number of bytes of each stream before a checkpoint. Raises ``Corrupt`` if anything changed."""
        content = read_folder_of_run(path, self.id)
        for stream, expected in content["rows"].items():
            file = self.path / f"{stream}.jsonl"
            if not file.exists() or digest(file.read_bytes()[: expected["bytes"]]) != expected["digest"]:
                raise Corrupt(f"{file}: rows from before {path.name} changed since it was written")
        return {stream: expected["bytes"] for stream, expected in content["rows"].items()}

    def _truncate(self, lengths: dict[str, int]) -> None:
        for stream in STREAMS:
            file = self.path / f"{stream}.jsonl"
            write_atomically(file, file.read_bytes()[: lengths.get(stream, 0)] if file.exists() else b"")

    def _streams(self) -> list[str]:
        return [stream for stream in STREAMS if (self.path / f"{stream}.jsonl").exists()]

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
        return read_sealed(path, "list of sessions")["sessions"] if path.exists() else []

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
