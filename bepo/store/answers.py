"""Answers of an endpoint that were paid for: ``answers.jsonl`` of an evaluation, one row an answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Lock
from typing import Any

from bepo.store.files import digest, read_rows, row_line, write_atomically

ANSWERS = "answers.jsonl"


def request_digest(place: str, body: dict[str, Any]) -> str:
    """Return what an answer is known by: the request, and its place in the evaluation.

    ``place`` tells equal requests apart, those of two passes for instance, whose answers are drawn independently.
    """
    return digest(json.dumps([place, body], sort_keys=True), 32)


class Answers:
    """The answers of one run. A row is on the disk before its answer is used, so that nothing is paid for twice.

    A row has ``request`` (the digest), ``place``, ``usage`` (tokens), and either ``text``, ``finish_reason``, ``model``
    and ``fingerprint``, or ``error``: the answer was of no use, but may have cost something.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self.rows = read_rows(path)
        write_atomically(path, "".join(map(row_line, self.rows)))  # without a line that a killed process left torn
        self._known = {row["request"]: row for row in self.rows if "text" in row}

    def get(self, request: str) -> dict[str, Any] | None:
        """Return the row of an answer that was paid for, if there is one."""
        return self._known.get(request)

    def add(self, row: dict[str, Any]) -> None:
        """Note what came back, synced to the disk; several threads may call this."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(row_line(row))
            file.flush()
            os.fsync(file.fileno())
            self.rows.append(row)
            if "text" in row:
                self._known[row["request"]] = row

    def tokens(self) -> tuple[int, int]:
        """Return how many tokens of prompts and of responses were paid for, over all sessions."""
        rows = list(self.rows)
        prompt, response = (sum(row["usage"].get(name) or 0 for row in rows) for name in ("prompt", "response"))
        return prompt, response
