"""Recorded rollouts of any source: a saved batch, or plain rows as JSON or JSONL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.store.files import Corrupt, read_bytes


def read_rollouts(path: Path) -> RolloutBatch:
    """Read a saved batch (.npz), a JSON list of rows or of cases with ``rows`` each, or JSONL with a row a line.

    ``RolloutBatch.from_rows`` says what a row has. Raises ``UserError`` that names the file and its first wrong row.
    """
    if path.suffix == ".npz":
        return RolloutBatch.load(path)
    try:
        content = _parsed(read_bytes(path, "file of rollouts"), path.suffix == ".jsonl")
        cases = [case["rows"] for case in content] if "rows" in content[0] else [content]
    except Corrupt:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise UserError(f"{path}: must be a list of rows, or of cases with rows ({error})") from error
    if not all(isinstance(rows, list) and all(isinstance(row, dict) for row in rows) for rows in cases):
        raise UserError(f"{path}: must be a list of rows, or of cases with rows")
    for case, rows in enumerate(cases):
        for number, row in enumerate(rows):
            if problem := _problem(row):
                raise UserError(f"{path}: row {number}{f' of case {case}' if len(cases) > 1 else ''}: {problem}")
    try:
        return RolloutBatch.concat([RolloutBatch.from_rows(rows) for rows in cases])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a valid row ({error!r})") from error


def _parsed(data: bytes, by_line: bool) -> Any:
    """Return the value of a JSON file, or the list of the values of a JSONL file."""
    return [json.loads(line) for line in data.splitlines() if line.strip()] if by_line else json.loads(data)


def _problem(row: dict[str, Any]) -> str:
    """Return the first error of a row; empty if the row is valid."""
    for name in ("uid", "traj", "obs", "next"):  # Python takes 1, 1.0 and true for the same key
        if isinstance(row.get(name), bool | float):
            return f"{name}={row[name]!r:.40} must be a text or a whole number"
    for name in ("r", "entropy", "energy", "continuation", "task_score", "expert_steps", "next_expert_steps"):
        value = row.get(name, 0.0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100
        if not is_number and (name in ("r", "task_score") or value is not None):
            return f"{name}={value!r:.40} must be a finite number"
    if type(step := row.get("t", 0)) is not int or not 0 <= step < 2**31:
        return f"t={step!r:.40} must be a whole number, at least 0"
    for name in ("uid", "traj", "obs", "next"):
        if isinstance(key := row.get(name), bool | float):  # Python takes 1, 1.0 and true for the same key
            return f"{name}={key!r:.40} must be text or a whole number"
    for name in ("valid", "broken"):
        if not isinstance(row.get(name, False), bool):
            return f"{name}={row[name]!r:.40} must be true or false"
    return ""
