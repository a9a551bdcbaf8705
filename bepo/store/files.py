"""Single files that several processes share: atomic writes, bounded reads, checksums, and what a full disk raises."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError, why

MOST_BYTES = 1 << 28
"""Size limit of a file that is read into memory. The largest file of a run has a few MB."""


class Corrupt(UserError):
    """A file or a folder is damaged or has unexpected content. The message begins with its path."""


class DiskFull(UserError):
    """The disk is full, or files may not become larger."""


@contextmanager
def disk_errors(place: Path, needed: int | None = None) -> Iterator[None]:
    """Raise ``DiskFull`` with the path and the bytes needed, whatever error a library raises on a full disk."""
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        place = Path(getattr(error, "filename", None) or place)
        if getattr(error, "errno", None) == errno.EFBIG or "File too large" in str(error):
            raise DiskFull(
                f"{place}: a file may not become so large here; raise the limit (ulimit -f), then the same command "
                "continues from the last checkpoint"
            ) from None
        if not _is_of_full_disk(error):
            raise
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


@contextmanager
def with_hint(advice: str) -> Iterator[None]:
    """Append advice to the message of a ``Corrupt`` that is raised within a ``with`` block."""
    try:
        yield
    except Corrupt as error:
        raise Corrupt(f"{error}; {advice}") from None
