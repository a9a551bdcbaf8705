"""Stored answers of an endpoint: ``answers.jsonl`` of an evaluation, one row per answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Lock
from typing import Any

from bepo.store.files import Corrupt, digest, read_bytes, write_atomically
from bepo.store.json_files import row_line

ANSWERS = "answers.jsonl"
_COLUMNS = {"request", "place", "usage", "text", "finish_reason", "model", "fingerprint", "error"}


def request_digest(place: str, body: dict[str, Any]) -> str:
    """Return the key of an answer: a digest of the request and of its place in the evaluation.

    ``place`` distinguishes equal requests whose answers are drawn independently, such as those of two passes.
    """
    return digest(json.dumps([place, body], sort_keys=True), 32)


class Answers:
    """The answers of one run. A row is on disk before its answer is used, so that no request is paid for twice.

    A row has ``request`` (the digest), ``place`` and ``usage`` (tokens). A usable answer adds ``text``,
    ``finish_reason``, ``model`` and ``fingerprint``; an unusable one adds ``error``. ``number`` grows from row to row,
    and ``digest`` is a checksum of the run ID and the other fields. Rows of older versions lack these two.
    """

    def __init__(self, path: Path, run_id: str) -> None:
        """Read the stored answers. Raises ``Corrupt`` for a row that changed or that belongs to another run."""
        self._path, self._run_id, self._lock = path, run_id, Lock()
        whole, _, torn = (read_bytes(path, "file of rows") if path.exists() else b"").rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        self.rows: list[dict[str, Any]] = []
        self._known: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(lines, start=1):
            if not self._is_intact(line):
                raise Corrupt(f"{path}: line {number} changed since it was written; remove the line to ask again")
            row = json.loads(line)
            before = self.rows[-1].get("number", -1) if self.rows else -1
            if row.get("number", before + 1) <= before or row == self._known.get(row.get("request", "")):
                raise Corrupt(f"{path}: line {number} repeats an earlier line; remove it")
            if "text" in row:
                self._known[row["request"]] = row
            self.rows.append(row)
        if torn or not path.exists():  # a killed process can leave half a line
            write_atomically(path, whole + b"\n" * bool(whole))

    def get(self, request: str) -> dict[str, Any] | None:
        """Return the row of a stored answer to a request, or None."""
        return self._known.get(request)

    def _is_intact(self, line: bytes) -> bool:
        """Return whether a line is unchanged. Rows without a digest are accepted only before the first digest."""
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(row, dict):
            return False
        if "digest" in row:
            return line + b"\n" == row_line(row).encode() and row["digest"] == self._digest(row)
        return row.keys() <= _COLUMNS and not (self.rows and "digest" in self.rows[-1])

    def _digest(self, row: dict[str, Any]) -> str:
        content = {name: value for name, value in row.items() if name != "digest"}
        return digest(json.dumps([self._run_id, content], sort_keys=True), 16)

    def add(self, row: dict[str, Any]) -> None:
        """Append an answer and sync it to disk. This method is thread-safe."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            row = row | {"number": self.rows[-1].get("number", len(self.rows) - 1) + 1 if self.rows else 0}
            row |= {"digest": self._digest(row)}
            file.write(row_line(row))
            file.flush()
            os.fsync(file.fileno())
            self.rows.append(row)
            if "text" in row:
                self._known[row["request"]] = row

    def tokens(self) -> tuple[int, int]:
        """Return the numbers of prompt and response tokens over all sessions."""
        rows = list(self.rows)
        prompt, response = (sum(row["usage"].get(name) or 0 for row in rows) for name in ("prompt", "response"))
        return prompt, response
