"""The files of a run: their names and formats, and a complete run as it is read and checked."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from bepo.core.errors import UserError
from bepo.store.checked import check_config, check_metadata_types, check_rows, check_transcripts, number_rows
from bepo.store.files import Corrupt, check_regular, digest_of_file, read_bytes
from bepo.store.folders import read_sealed_folder
from bepo.store.json_files import parse_object, read_object, read_rows, read_sealed, unsealed

FORMAT_VERSION = 2
Rows: TypeAlias = list[dict[str, Any]]
"""Rows of a stream, or transcripts."""
STREAMS: tuple[str, ...] = ("metrics", "episodes")
CONFIG = "config.json"
RUN = "run.json"
INCOMPLETE = f"incomplete, {RUN} is missing"
"""Why a run that has not ended cannot be read."""
SESSIONS = "sessions.json"
CONTENT = "content.json"
TRANSCRIPTS = "transcripts.jsonl.gz"
_NAME = re.compile(r"(\w[\w-]*/)?\w[\w.-]*")  # a file in the folder of a run
ROLLOUTS = "rollouts"


def success_of(result: Mapping[str, Any]) -> float | None:
    """Return the success rate of a result; None if episodes are missing, because the others are a biased sample.

    Older results state a rate in that case, which is ignored.
    """
    return None if result.get("missing") else result.get("success")


@dataclass
class StoredRun:
    """A complete run, read and checked; ``metadata`` is the content of its ``run.json``."""

    path: Path
    metadata: dict[str, Any]
    config: dict[str, Any]

    @property
    def id(self) -> str:
        """The run ID, 12 hex digits."""
        return self.metadata["run_id"]

    @property
    def commits(self) -> set[str]:
        """The commits that trained the run. Sessions outside a git checkout have no commit."""
        return {session["commit"] for session in self.metadata.get("sessions", []) if session.get("commit")}

    @property
    def updates(self) -> int:
        """The number of updates that were made."""
        made = self.metadata.get("result", {}).get("updates")
        return len(self.metrics()) if made is None else made

    @property
    def clock(self) -> str:
        """Prefix of the columns that measure the cost of the run: CPU seconds on a CPU, else wall-clock seconds."""
        return "cpu/" if self.metadata.get("device") == "cpu" else "time/"

    def metrics(self) -> Rows:
        """Read one row for each update."""
        return self.rows("metrics")

    def episodes(self) -> Rows:
        """Read one row for each evaluation episode."""
        return self.rows("episodes")

    def transcripts(self) -> Rows:
        """Read the transcripts: a row with ``steps`` for each test episode of the first pass of the last policy."""
        if TRANSCRIPTS not in self.names():
            return []
        try:
            lines = gzip.decompress(self.read(TRANSCRIPTS)).decode().splitlines()
            rows = [json.loads(line) for line in lines]
        except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
            raise Corrupt(f"{self.path / TRANSCRIPTS}: not transcripts ({error})") from None
        check_transcripts(rows, self.path)
        return rows

    def rollouts(self) -> dict[int, str]:
        """Return the file name of each rollout batch that was kept, by update."""
        named = ((Path(name).stem, name) for name in self.names() if name.startswith(f"{ROLLOUTS}/"))
        return {int(update): name for update, name in named if update.isdecimal()}

    def rows(self, stream: str) -> Rows:
        """Read the rows of ``metrics`` or ``episodes``; a metric that is not a number is None.

        Raises ``Corrupt`` for values of another type.
        """
        rows = self.stored_rows(stream)
        check_rows(rows, stream, self.path)
        return number_rows(rows) if stream == "metrics" else rows

    def stored_rows(self, stream: str) -> Rows:
        """Read the rows of ``metrics`` or ``episodes`` as they are stored."""
        return read_rows(self.path / f"{stream}.jsonl")

    def columns(self, stream: str) -> dict[str, list[Any]]:
        """Read a stream as columns of equal length. A row without a column has None there."""
        rows = self.rows(stream)
        return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}

    def names(self) -> list[str]:
        """Return the names of the files that ``run.json`` lists."""
        return sorted(self.metadata["files"])

    def read(self, name: str) -> bytes:
        """Read a file of the run. Raises ``Corrupt`` unless it is a regular file."""
        check_regular(self.path / name, "file of a run")
        return (self.path / name).read_bytes()

    def policy(self) -> Path:
        """Return the folder of the policy, in the format of transformers. Raises ``Corrupt`` if a file changed."""
        read_folder_of_run(self.path / "policy", self.id)
        return self.path / "policy"


def read_folder_of_run(folder: Path, run_id: str) -> dict[str, Any]:
    """Return the metadata of a sealed folder that belongs to a run, such as a checkpoint.

    Raises ``Corrupt`` if a file changed or if the folder belongs to another run. Older folders do not name their run.
    """
    metadata = read_sealed_folder(folder, CONTENT)
    if metadata.get("run", run_id) != run_id:
        raise Corrupt(f"{folder}: belongs to run {metadata['run']!r:.40}, not to run {run_id}")
    return metadata


def refuse_older(results: Path) -> None:
    """Raise ``UserError`` if all complete runs of a results folder have an older format."""
    versions = set()
    for path in results.glob("runs/*/run.json"):
        with suppress(Corrupt):
            version = read_object(path, "run file").get("format_version")
            if not isinstance(version, int) or version >= FORMAT_VERSION:
                return
            versions.add(version)
    if versions:
        known = ", ".join(map(str, sorted(versions)))
        raise UserError(
            f"results={results}: its runs have format {known}, this bepo reads {FORMAT_VERSION}; choose another folder"
        )


def read_run(path: Path, *, hashed: bool = True) -> StoredRun:
    """Read a complete run, and compare the digest of each file with ``run.json``.

    ``hashed=False`` is faster, for lists of many runs: a file is not hashed if it is older than ``run.json`` and has
    the stated size. Raises ``Corrupt`` naming the damaged file.
    """
    if not (path / RUN).is_file():
        raise Corrupt(f"{path}: {INCOMPLETE}")
    data = read_bytes(path / RUN, "run file")
    check_metadata(parse_object(data, path / RUN, "run file"), path / RUN, path.name)
    metadata = unsealed(data, path / RUN, "run file")
    completed = (path / RUN).stat().st_mtime_ns
    for name, expected in metadata["files"].items():
        try:
            state = (path / name).stat()
        except OSError:
            raise Corrupt(f"{path / name}: missing") from None
        plausible = state.st_mtime_ns < completed and state.st_size == metadata.get("sizes", {}).get(name)
        if (hashed or not plausible) and digest_of_file(path / name) != expected:
            raise Corrupt(f"{path / name}: changed since the run was completed")
    check_metadata_types(metadata, path / RUN)
    return StoredRun(path, metadata, read_config(path))


def check_metadata(data: dict[str, Any], place: Path, run_id: str) -> None:
    """Raise ``Corrupt`` unless the content of a ``run.json`` belongs to this run and has the current format."""
    if data.get("format_version") != FORMAT_VERSION:
        raise Corrupt(f"{place}: run format {data.get('format_version')}; this bepo reads {FORMAT_VERSION}")
    files = data.get("files")
    if not isinstance(files, dict) or not isinstance(data.get("sizes", {}), dict) or data.get("run_id") != run_id:
        raise Corrupt(f"{place}: not the file of run {run_id}")
    if outside := [name for name in files if not _NAME.fullmatch(name)]:
        raise Corrupt(f"{place}: a run cannot have a file {outside[0][:80]!r}")


def read_config(path: Path) -> dict[str, Any]:
    """Read the config of a run, which may be in progress. Raises ``Corrupt``."""
    config = read_sealed(path / CONFIG, "config")
    check_config(config, path / CONFIG)
    return config
