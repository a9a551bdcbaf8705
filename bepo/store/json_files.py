"""JSON objects, with a checksum or without one, and rows of JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bepo.store.files import Corrupt, digest, read_bytes, write_atomically

T = TypeVar("T")
_INDENTATION = re.compile(rb"\n *")


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with a field ``digest``, the checksum of all other fields."""
    write_atomically(path, with_digest(content))


def read_sealed(path: Path, what: str) -> dict[str, Any]:
    """Read what ``write_sealed`` wrote. Raises ``Corrupt`` if a single byte differs."""
    return unsealed(read_bytes(path, what), path, what)


def with_digest(content: dict[str, Any]) -> str:
    """Return a JSON object with a field ``digest``, the checksum of all other fields."""
    text = json.dumps(nan_to_none(content), sort_keys=True, allow_nan=False)
    return json.dumps(json.loads(text) | {"digest": digest(text)}, indent=1, sort_keys=True)


def unsealed(data: bytes, place: Path, what: str) -> dict[str, Any]:
    """Return an object that ``sealed`` wrote, without its digest. Raises ``Corrupt``, naming ``place`` and ``what``."""
    content = parse_object(data, place, what)
    content.pop("digest", None)
    try:
        # Compare without line breaks and indentation: json is ten times faster without indentation.
        whole = content | {"digest": digest(json.dumps(content, sort_keys=True, allow_nan=False))}
        if _INDENTATION.sub(b"", data) == json.dumps(whole, sort_keys=True, separators=(",", ": ")).encode():
            return content
    except (ValueError, RecursionError):  # ``sealed`` cannot have written this text
        pass
    raise Corrupt(f"{place}: changed since it was written")


def field(content: Mapping[str, Any], name: str, kind: type[T], place: Path) -> T:
    """Return a field of a file. Raises ``Corrupt`` if it is missing or has another type."""
    if not isinstance(value := content.get(name), kind):
        raise Corrupt(f"{place}: its {name} is {value!r:.60}, must be of type {kind.__name__}")
    return value


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object; ``what`` names it in messages. Raises ``Corrupt``."""
    return parse_object(read_bytes(path, what), path, what)


def parse_object(data: bytes, place: Path, what: str) -> dict[str, Any]:
    """Return a JSON object. Raises ``Corrupt``."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{place}: not a {what} ({error})") from None
    if not isinstance(content, dict):
        raise Corrupt(f"{place}: not a {what}, but a {type(content).__name__}")
    return content


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a JSONL file up to the first incomplete line. A killed writer can leave one at the end.

    Raises ``Corrupt`` if the path is not a regular file.
    """
    text = read_bytes(path, "file of rows").decode(errors="replace") if path.exists() else ""
    lines = text.splitlines()
    try:
        rows = json.loads(f"[{','.join(lines)}]")  # several times faster than line by line
    except (ValueError, RecursionError):
        rows = []
    if len(rows) != len(lines) or not all(isinstance(row, dict) for row in rows):
        rows = []
        for row in map(_row, lines):
            if row is None:
                break
            rows.append(row)
    return rows


def _row(line: str) -> dict[str, Any] | None:
    """Return the row of a line; None if the line is not a JSON object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def row_line(row: dict[str, Any]) -> str:
    """Return a row as a line of a JSONL file."""
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except ValueError:  # NaN or an infinity, which is rare: a search in every row would take longer than writing it
        return json.dumps(nan_to_none(row), allow_nan=False) + "\n"


def nan_to_none(value: Any) -> Any:
    """Replace numbers that JSON cannot hold (NaN and the infinities) by None, at any depth."""
    if isinstance(value, dict):
        return {k: nan_to_none(v) for k, v in value.items()}
    if isinstance(value, list):
        return [nan_to_none(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_made_for(place: Path, content: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise ``Corrupt`` if a shared file was made for other settings than expected.

    The file name contains a digest of the settings, but a file can be renamed.
    """
    wanted = json.loads(json.dumps(nan_to_none(dict(expected))))
    if others := list(_differences(content, wanted)):
        raise Corrupt(f"{place}: made for other settings ({'; '.join(others[:3])})")


def _differences(value: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """Yield "name is A, not B" for each setting in which two trees differ."""
    if isinstance(value, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(value.keys() | wanted.keys()):
            yield from _differences(value.get(key), wanted.get(key), f"{name}.{key}" if name else key)
    elif value != wanted:
        yield f"{name} is {value!r:.60}, not {wanted!r:.60}"
