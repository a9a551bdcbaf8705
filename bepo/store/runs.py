"""The folder of a run, whose ``run.json`` is written last: that file *is* completeness.

results/runs/<run id>/
    config.json           the resolved config
    metrics.jsonl         one row an update
    episodes.jsonl        one row an evaluation episode
    rollouts/*.npz        rollout batches of the first, the middle and the last update, and those that were asked for
    transcripts.jsonl.gz  one row a test episode of the last policy: what it read, wrote and got
    answers.jsonl         of a served policy's evaluation: what the endpoint answered, one row an answer
    passes.json           of an evaluation in progress: vouches for the rows of its whole passes
    sessions.json         for each session of work: start, commit, uncommitted changes or not, machine, settings
    checkpoint-<update>/  the newest checkpoints; content.json vouches for their files and for the rows before them
    policy/               the policy of a finished run; content.json vouches for its files
    run.json              result, versions, and a digest of every file that it vouches for: all but the folders' own
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
from bepo.store.files import (
    Corrupt,
    digest,
    digest_of_file,
    link_or_copy,
    read_bytes,
    read_rows,
    read_sealed,
    remove_leftovers,
    row_line,
    seal_folder,
    size_of_folder,
    sync_folder,
    try_acquire,
    write_atomically,
    write_sealed,
)
from bepo.store.stored import (
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
    """Another process works on the run."""


def run_id(identity: dict[str, Any]) -> str:
    """Return 12 hex digits of the SHA-256 of everything that can change a run's result."""
    return digest(json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False), 12)


class RunFolder:
    """A run being written."""

    def __init__(self, results: Path, identifier: str) -> None:
        self.id, self.results = identifier, results
        self.path = results / "runs" / identifier

    @property
    def remedy(self) -> str:
        """What its user can do where the run is corrupt: nothing is removed without being asked."""
        return f"to train it again, remove it: python -m analysis runs delete {self.id} --results {self.results}"

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
        """Replace all rows of ``metrics`` or ``episodes``, for which nothing vouches then."""
        (self.path / PASSES).unlink(missing_ok=True)
        write_atomically(self.path / f"{stream}.jsonl", "".join(map(row_line, rows)))

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Read the rows that are there so far, also while another process writes them."""
        return read_rows(self.path / f"{stream}.jsonl")

    def vouch_for_passes(self) -> None:
        """Note the digest of the rows of ``episodes`` that are there: whole passes of an evaluation in progress."""
        data = (self.path / "episodes.jsonl").read_bytes()
        write_sealed(self.path / PASSES, {"run": self.id, "bytes": len(data), "of_rows": digest(data)})

    def rows_of_passes(self) -> list[dict[str, Any]]:
        """Return the rows of ``episodes`` that ``vouch_for_passes`` has seen. Raises ``Corrupt`` if they changed."""
        if not (self.path / PASSES).exists():
            return []
        path, noted = self.path / "episodes.jsonl", read_sealed(self.path / PASSES, "list of passes")
        data = read_bytes(path, "file of rows")[: noted["bytes"]]
        if noted["run"] != self.id or digest(data) != noted["of_rows"]:
            raise Corrupt(f"{path}: changed since it was written; remove it and {PASSES} to play the passes again")
        return [json.loads(line) for line in data.splitlines()]

    def write_transcripts(self, episodes: Iterable[dict[str, Any]]) -> None:
        """Keep one row an episode; a second call overwrites the first."""
        lines = "".join(row_line(episode) for episode in episodes)
        write_atomically(self.path / TRANSCRIPTS, gzip.compress(lines.encode(), mtime=0))

    # --- checkpoints ---------------------------------------------------------------------------------------

    def checkpoints(self) -> list[tuple[int, Path]]:
        """Return the update and the folder of each finished checkpoint, the newest first; their files are unchecked."""
        numbered = ((path.name.removeprefix("checkpoint-"), path) for path in self.path.glob("checkpoint-*"))
        found = ((int(number), path) for number, path in numbered if number.isdecimal() and path.is_dir())
        return sorted(found, reverse=True)

    @contextmanager
    def new_checkpoint(self, update: int, keep: int = 2) -> Iterator[Path]:
        """Yield a folder to fill; when the block ends it becomes a checkpoint, and the newest ``keep`` stay.

        Where the disk has no room for one more, all but the newest are removed first, and stderr says so; with
        ``keep=0`` the newest as well, and the new one stays.
        """
        folder = self.path / f"checkpoint-{update}"
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        self._make_room(keep)
        part.mkdir()
        try:
            yield part
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)  # its place is needed where the disk is full
            raise
        rows = {stream: (self.path / f"{stream}.jsonl").read_bytes() for stream in self._streams()}
        lengths = {stream: {"bytes": len(data), "digest": digest(data)} for stream, data in rows.items()}
        seal_folder(part, CONTENT, run=self.id, rows=lengths)
        part.rename(folder)
        self.drop_checkpoints(max(keep, 1))

    def _make_room(self, keep: int) -> None:
        """Remove the oldest checkpoints while the disk has no room for one more of the newest's size.

        The newest stays unless ``keep`` is 0: without it, a run that is killed while it writes the next one begins
        anew. None is removed where that would not make room: the run then ends with what it has.
        """
        found = [path for _, path in self.checkpoints()]
        if not found:
            return
        sizes = [size_of_folder(path) for path in found]
        missing = sizes[0] + sizes[0] // 20 - shutil.disk_usage(self.path).free  # metadata takes some bytes, too
        if missing > sum(sizes[min(keep, 1) :]):
            return
        while missing > 0:
            oldest, size = found.pop(), sizes.pop()
            shutil.rmtree(oldest.rename(oldest.with_suffix(".part")))  # a kill must not leave half a checkpoint
            missing -= size
            print(f"{oldest}: removed before the next one is written, for which the disk has no room", file=sys.stderr)

    def drop_checkpoints(self, keep: int = 0) -> None:
        """Remove all but the newest ``keep`` checkpoints."""
        for _, path in self.checkpoints()[keep:]:
            shutil.rmtree(path)

    def keep_policy(self, folder: Path) -> None:
        """Keep a folder with the policy, in transformers' format, as ``policy``.

        It shares the files' bytes with ``folder`` where the file system has hard links, and is a copy elsewhere.
        """
        part = self.path / "policy.part"
        for old in (part, self.path / "policy"):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(folder, part, copy_function=link_or_copy)
        seal_folder(part, CONTENT, run=self.id)
        part.rename(self.path / "policy")

    def go_on_from(self, other: RunFolder) -> None:
        """Begin where a run ended that kept its checkpoint: with a copy of it, of its rows, rollouts and sessions."""
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
        """Return the newest intact checkpoint, and drop the rows that came after it, which the run writes again.

        Damaged checkpoints are named on stderr and left out. None, and no rows, where there is no checkpoint at all.
        Raises ``Corrupt``, and changes nothing, if there are some and none is intact.
        """
        problems = []
        for update, path in self.checkpoints():
            try:
                lengths = self._intact(path)
            except Corrupt as error:
                problems.append(str(error))
                continue
            for problem in problems:
                print(f"{problem}; going on from update {update}", file=sys.stderr)
            self._truncate(lengths)
            return update, path
        if problems:
            raise Corrupt(f"{problems[0]}; no checkpoint is intact: remove {self.path} to start anew")
        self._truncate({})
        return None

    def _intact(self, path: Path) -> dict[str, int]:
        """Return how many bytes of each stream a checkpoint vouches for. Raises ``Corrupt`` if anything changed."""
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
        """Note the config, and one more session of work on the run: when, where and by which source."""
        write_sealed(self.path / "config.json", config)
        self._write_sessions([*self.sessions(), session])

    def _write_sessions(self, sessions: list[dict[str, Any]]) -> None:
        write_sealed(self.path / SESSIONS, {"sessions": sessions})

    def sessions(self) -> list[dict[str, Any]]:
        """Return what is noted of each session of work, the oldest first. Raises ``Corrupt``."""
        path = self.path / SESSIONS
        return read_sealed(path, "list of sessions")["sessions"] if path.exists() else []

    def reopen(self) -> None:
        """Make a complete run one in progress, such as an evaluation of which episodes are missing."""
        (self.path / "run.json").unlink(missing_ok=True)

    def complete(self, facts: dict[str, Any]) -> None:
        """Write ``run.json``: the facts, with digest and size of every file that it vouches for."""
        streams = [f"{stream}.jsonl" for stream in self._streams()]
        optional = [name for name in (TRANSCRIPTS, ANSWERS) if (self.path / name).exists()]
        names = ["config.json", SESSIONS, *streams, *optional]
        names += [str(path.relative_to(self.path)) for path in sorted((self.path / ROLLOUTS).glob("*.npz"))]
        digests = {name: digest_of_file(self.path / name) for name in names}
        sizes = {name: (self.path / name).stat().st_size for name in names}
        content = {"format_version": FORMAT_VERSION, "run_id": self.id, **facts, "files": digests, "sizes": sizes}
        write_sealed(self.path / "run.json", content)

    @property
    def is_complete(self) -> bool:
        """Was the run finished? Whether its files are still what they were, ``read_run`` tells."""
        return (self.path / "run.json").exists()

    def progress(self, *, hashed: bool = True) -> Progress:
        """Return where the run stands; a run that says it is complete is checked, as ``read_run`` does."""
        status = "partial" if (self.path / "config.json").exists() else "missing"
        try:
            if not self.is_complete:
                rows = self.rows("metrics")
                return Progress(status, len(rows), rows[-1] if rows else {})
            run = read_run(self.path, hashed=hashed)
        except Corrupt as error:
            return Progress("corrupt", problem=str(error))
        result = run.facts.get("result", {})
        if not isinstance(result, dict):
            return Progress("corrupt", problem=f"{self.path}: its result is no result, but {str(result)[:80]!r}")
        return Progress("partial" if result.get("missing") else "complete", result.get("updates", 0), run=run)


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    status: Literal["complete", "partial", "missing", "corrupt"]
    updates: int = 0  # that were made
    last: dict[str, Any] = field(default_factory=dict)  # the newest row of a run in progress
    problem: str = ""  # what is wrong with a corrupt one
    run: StoredRun | None = None  # a complete one, as it was read and checked
