"""Files that several processes share: atomic writes, checksums, locks and rows."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from bepo.core.errors import UserError, why

MOST_BYTES = 1 << 28
"""Size limit of a file that is read into memory. The largest file of a run has a few MB."""
_INDENTATION = re.compile(rb"\n *")


class Corrupt(UserError):
    """A file or a folder is damaged or has unexpected content. The message begins with its path."""


class DiskFull(UserError):
    """The disk is full."""


@contextmanager
def disk_errors(place: Path, needed: int | None = None) -> Iterator[None]:
    """Raise ``DiskFull`` with the path and the bytes needed, whatever error a library raises on a full disk."""
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        if not _is_of_full_disk(error):
            raise
        place = Path(getattr(error, "filename", None) or place)
        free = shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free
        wanted = "more" if needed is None else f"{needed} bytes"
        raise DiskFull(
            f"{place}: no space left on the disk, {free} bytes are free and {wanted} are needed; free some space, then "
            "the same command continues from the last checkpoint"
        ) from None


def _is_of_full_disk(error: BaseException) -> bool:
    """Return whether an error of Python or of a library comes from a full disk or an exceeded quota."""
    words = ("No space left on device", "disk is full", "Disk quota exceeded", "inline_container.cc")  # the last: torch
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(word in str(error) for word in words)


def remove_leftovers(folder: Path, seconds: float = 0.0) -> None:
    """Remove files and folders that a killed process left half written (``*.part``), at least ``seconds`` old."""
    for part in folder.glob("*.part"):
        with suppress(OSError):  # another process removed it
            if time.time() - part.stat().st_mtime >= seconds:
                shutil.rmtree(part) if part.is_dir() else part.unlink()


def folder_name(name: Any, what: str) -> str:
    """Return the name of a file or a folder. Raises ``UserError`` for a name that could leave the folder."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]{0,99}", name):
        raise UserError(f"{what}={str(name)[:40]!r}: must be a name of letters, digits and . _ + - (100 at most)")
    return name


def part_of(path: Path) -> Path:
    """Return a unique temporary path for a file. Two containers can share a folder and have equal process IDs."""
    return path.with_name(f"{path.name}.{socket.gethostname()[:64]}.{os.getpid()}.{secrets.token_hex(4)}.part")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file atomically: readers see the old or the new content, never a part, even after a power cut."""
    data = content.encode() if isinstance(content, str) else content
    part = part_of(path)
    with disk_errors(path, len(data)):
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            error.filename = str(path)  # not the temporary path
            raise


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file that a user named, and make its parent folders.

    Pipes and devices, such as ``/dev/stdout``, are written in place. Raises ``OSError`` for a pipe without a reader,
    where writing would block, and for any other path that cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:  # a file, or a link to itself
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
    if path.is_file() or not path.exists():
        write_atomically(path, content)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    with disk_errors(path), open(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def digest(content: str | bytes, length: int = 64) -> str:
    """Return the first ``length`` hex digits of the SHA-256 of ``content``."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:length]


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hex digits. Raises ``Corrupt`` unless it is a regular file."""
    check_regular(path, "file")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bytes(path: Path, what: str) -> bytes:
    """Return the content of a regular file. Raises ``Corrupt`` for anything else, and above 256 MB.

    Other kinds of files are refused because reading a FIFO would block.
    """
    if check_regular(path, what) > MOST_BYTES:
        raise Corrupt(f"{path}: not a {what}, it has more than {MOST_BYTES} bytes")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Corrupt(f"{path}: not a {what} ({error.strerror})") from None


def check_regular(path: Path, what: str) -> int:
    """Return the size of a file in bytes. Raises ``Corrupt`` if it is missing, or a folder, a pipe or a device."""
    try:
        state = path.stat()
    except FileNotFoundError:
        raise Corrupt(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise Corrupt(f"{path}: not a {what} ({why(error)})") from None
    if not stat.S_ISREG(state.st_mode):
        raise Corrupt(f"{path}: not a {what}: not a regular file")
    return state.st_size


def digests_of_folder(path: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, by its relative path."""
    files = sorted(file for file in path.rglob("*") if not file.is_dir())
    return {str(file.relative_to(path)): digest_of_file(file) for file in files}


def seal_folder(path: Path, name: str, **metadata: Any) -> None:
    """Write metadata and the digest of every other file below a folder to ``path/name``, and sync the folder.

    Files get the folder's read permissions, because safetensors makes files that only their owner can read.
    """
    for file in (file for file in path.rglob("*") if file.is_file()):
        file.chmod(path.stat().st_mode & 0o666)
    write_sealed(path / name, {**metadata, "files": digests_of_folder(path)})
    sync_folder(path)


def read_sealed_folder(path: Path, name: str) -> dict[str, Any]:
    """Return the metadata that ``seal_folder`` wrote. Raises ``Corrupt`` for a changed, lost or added file."""
    metadata = read_sealed(path / name, "list of files")
    found = digests_of_folder(path)
    found.pop(name)
    expected = metadata.pop("files")
    changed = [file for file in found.keys() | expected.keys() if found.get(file) != expected.get(file)]
    if changed:
        raise Corrupt(f"{path / min(changed)}: {_change(min(changed), found, expected)} since {name} was written")
    return metadata


@contextmanager
def advise(advice: str) -> Iterator[None]:
    """Append advice to the message of a ``Corrupt`` that is raised within a ``with`` block."""
    try:
        yield
    except Corrupt as error:
        raise Corrupt(f"{error}; {advice}") from None


def check_made_for(place: Path, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise ``Corrupt`` if a shared file was made for other settings than expected.

    The file name contains a digest of the settings, but a file can be renamed.
    """
    wanted = json.loads(json.dumps(finite(dict(expected))))
    if others := list(_differences(found, wanted)):
        raise Corrupt(f"{place}: made for other settings ({'; '.join(others[:3])})")


def _differences(found: Any, wanted: Any, name: str = "") -> Iterator[str]:
    """Yield "name is A, not B" for each setting in which two trees differ."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in sorted(found.keys() | wanted.keys()):
            yield from _differences(found.get(key), wanted.get(key), f"{name}.{key}" if name else key)
    elif found != wanted:
        yield f"{name} is {found!r:.60}, not {wanted!r:.60}"


def _change(file: str, found: dict[str, str], expected: dict[str, str]) -> str:
    return "lost" if file not in found else "added" if file not in expected else "changed"


def size_of_folder(path: Path) -> int:
    """Return the size of all files below a folder in bytes."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def link_or_copy(source: str, target: str) -> str:
    """Make ``target`` a hard link to the file ``source``, or a copy if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def sync_folder(path: Path) -> None:
    """Sync every file below a folder, and the folder itself, to disk."""
    for place in (*path.rglob("*"), path):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock during a ``with`` block. Wait without limit while another process holds it."""
    lock = acquire(path)
    try:
        yield
    finally:
        lock.release()


def acquire(path: Path, timeout: float = -1) -> FileLock:
    """Return a lock that is held until its ``release`` or the end of the process.

    Raises ``filelock.Timeout`` if another holder keeps it for ``timeout`` seconds. A negative timeout waits for ever.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    lock.acquire(timeout)
    return lock


def try_acquire(path: Path) -> FileLock | None:
    """Return a lock as ``acquire`` does, or None if it is held already."""
    try:
        return acquire(path, timeout=0)
    except Timeout:
        return None


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with a field ``digest``, the checksum of all other fields."""
    write_atomically(path, sealed(content))


def read_sealed(path: Path, what: str) -> dict[str, Any]:
    """Read what ``write_sealed`` wrote. Raises ``Corrupt`` if a single byte differs."""
    return unsealed(read_bytes(path, what), path, what)


def sealed(content: dict[str, Any]) -> str:
    """Return a JSON object with a field ``digest``, the checksum of all other fields."""
    text = json.dumps(finite(content), sort_keys=True, allow_nan=False)
    return json.dumps(json.loads(text) | {"digest": digest(text)}, indent=1, sort_keys=True)


def unsealed(data: bytes, place: Path, what: str) -> dict[str, Any]:
    """Return what ``sealed`` wrote, without its digest. Raises ``Corrupt``, naming ``place`` and ``what``."""
    found = parse_object(data, place, what)
    found.pop("digest", None)
    try:
        # Compare without line breaks and indentation: json is ten times faster without indentation.
        whole = found | {"digest": digest(json.dumps(found, sort_keys=True, allow_nan=False))}
        if _INDENTATION.sub(b"", data) == json.dumps(whole, sort_keys=True, separators=(",", ": ")).encode():
            return found
    except (ValueError, RecursionError):  # ``sealed`` cannot have written this text
        pass
    raise Corrupt(f"{place}: changed since it was written")


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object; ``what`` names it in messages. Raises ``Corrupt``."""
    return parse_object(read_bytes(path, what), path, what)


def parse_object(data: bytes, place: Path, what: str) -> dict[str, Any]:
    """Return a JSON object. Raises ``Corrupt``."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{place}: not a {what} ({error})") from None
    if not isinstance(found, dict):
        raise Corrupt(f"{place}: not a {what}, but a {type(found).__name__}")
    return found


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
    return json.dumps(finite(row), allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """Replace numbers that JSON cannot hold (NaN and the infinities) by None, at any depth."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
