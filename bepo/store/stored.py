"""A complete run, read and checked."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from bepo.core.errors import UserError
from bepo.store.files import (
    Corrupt,
    check_regular,
    digest_of_file,
    parse_object,
    read_bytes,
    read_object,
    read_rows,
    read_sealed,
    read_sealed_folder,
    unsealed,
)

FORMAT_VERSION = 2
Rows: TypeAlias = list[dict[str, Any]]
"""Rows of a stream, or transcripts."""
STREAMS: tuple[str, ...] = ("metrics", "episodes")
CONFIG = "config.json"
RUN = "run.json"
SESSIONS = "sessions.json"
CONTENT = "content.json"
TRANSCRIPTS = "transcripts.jsonl.gz"
_NAME = re.compile(r"(\w[\w-]*/)?\w[\w.-]*")  # of a file in a run's folder
ROLLOUTS = "rollouts"


def success_of(result: Mapping[str, Any]) -> float | None:
    """Return the success rate that a result states; None where episodes are missing, because the rest is a selection.

    Results that were written before also state the rate of the rest, which is not returned.
    """
    return None if result.get("missing") else result.get("success")


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

    @property
    def commits(self) -> set[str]:
        """The commits whose code trained the run, without the sessions of sources that no commit has."""
        return {session["commit"] for session in self.facts["sessions"] if session.get("commit")}

    @property
    def clock(self) -> str:
        """Prefix of the seconds in a row that say what the run costs: CPU seconds on a CPU, else those of the clock."""
        return "cpu/" if self.facts.get("device") == "cpu" else "time/"

    def metrics(self) -> Rows:
        """Read one row for each update."""
        return self.rows("metrics")

    def episodes(self) -> Rows:
        """Read one row for each evaluation episode."""
        return self.rows("episodes")

    def transcripts(self) -> Rows:
        """Read one row for each test episode of the last policy's first pass: the episode, and its ``steps``."""
        lines = gzip.decompress(self.read(TRANSCRIPTS)).decode().splitlines() if TRANSCRIPTS in self.names() else []
        return [json.loads(line) for line in lines]

    def rollouts(self) -> dict[int, str]:
        """Return the name of each file with a rollout batch that was kept, by its update."""
        named = ((Path(name).stem, name) for name in self.names() if name.startswith(f"{ROLLOUTS}/"))
        return {int(update): name for update, name in named if update.isdecimal()}

    def rows(self, stream: str) -> Rows:
        """Read the rows of ``metrics`` or ``episodes``."""
        return read_rows(self.path / f"{stream}.jsonl")

    def names(self) -> list[str]:
        """Return the names of the files that ``run.json`` vouches for."""
        return sorted(self.facts["files"])

    def read(self, name: str) -> bytes:
        """Read a file of the run. Raises ``Corrupt`` for what is not a file."""
        check_regular(self.path / name, "file of a run")
        return (self.path / name).read_bytes()

    def policy(self) -> Path:
        """Return the folder of the policy, which transformers loads. Raises ``Corrupt`` if it is not as it was."""
        read_folder_of_run(self.path / "policy", self.id)
        return self.path / "policy"


def read_folder_of_run(folder: Path, run_id: str) -> dict[str, Any]:
    """Return the facts of a sealed folder that belongs to a run, such as a checkpoint.

    Raises ``Corrupt`` if it is not as it was, or belongs to another run. Older folders do not say to which one.
    """
    facts = read_sealed_folder(folder, CONTENT)
    if facts.get("run", run_id) != run_id:
        raise Corrupt(f"{folder}: belongs to run {facts['run']!r:.40}, not to run {run_id}")
    return facts


def refuse_older(results: Path) -> None:
    """Raise ``UserError`` for a results folder whose complete runs are all of an older format."""
    versions = set()
    for path in results.glob("runs/*/run.json"):
        with suppress(Corrupt):
            version = read_object(path, "run file").get("format_version")
            if not isinstance(version, int) or version >= FORMAT_VERSION:
                return
            versions.add(version)
    if versions:
        found = ", ".join(map(str, sorted(versions)))
        raise UserError(
            f"results={results}: its runs have format {found}, this bepo reads {FORMAT_VERSION}: choose another folder"
        )


def read_run(path: Path, *, hashed: bool = True) -> StoredRun:
    """Read a complete run, and compare the digest of each of its files with that in ``run.json``.

    ``hashed=False`` is for lists of many runs: it believes a file that is older than ``run.json`` and has the size that
    this says. Raises ``Corrupt`` naming the file at fault.
    """
    if not (path / RUN).is_file():
        raise Corrupt(f"{path}: incomplete, there is no {RUN}")
    data = read_bytes(path / RUN, "run file")
    check_facts(parse_object(data, path / RUN, "run file"), path / RUN, path.name)
    facts = unsealed(data, path / RUN, "run file")
    completed = (path / RUN).stat().st_mtime_ns
    for name, expected in facts["files"].items():
        try:
            state = (path / name).stat()
        except OSError:
            raise Corrupt(f"{path / name}: missing") from None
        believed = state.st_mtime_ns < completed and state.st_size == facts.get("sizes", {}).get(name)
        if (hashed or not believed) and digest_of_file(path / name) != expected:
            raise Corrupt(f"{path / name}: changed since the run was completed")
    return StoredRun(path, facts, read_config(path))


def check_facts(facts: dict[str, Any], place: Path, run_id: str) -> None:
    """Raise ``Corrupt`` unless ``facts`` are those of this run, in the format that this bepo reads."""
    if facts.get("format_version") != FORMAT_VERSION:
        raise Corrupt(f"{place}: run format {facts.get('format_version')}; this bepo reads {FORMAT_VERSION}")
    files = facts.get("files")
    if not isinstance(files, dict) or not isinstance(facts.get("sizes", {}), dict) or facts.get("run_id") != run_id:
        raise Corrupt(f"{place}: not the file of run {run_id}")
    if outside := [name for name in files if not _NAME.fullmatch(name)]:
        raise Corrupt(f"{place}: a run has no file {outside[0][:80]!r}")


def read_config(path: Path) -> dict[str, Any]:
    """Read the config of a run, complete or not. Raises ``Corrupt``."""
    return read_sealed(path / CONFIG, "config")
