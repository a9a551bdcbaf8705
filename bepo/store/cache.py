"""What a command has computed, kept for the next one in ``$BEPO_CACHE/<kind>`` (default: ``~/.cache/bepo/<kind>``).

A file is named after the digest of its key and begins with the SHA-256 of its content, so a damaged one is computed
again. What was not used for 30 days is removed. A disk that is full or read-only costs time only.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from bepo.core.places import cache_folder
from bepo.store.files import DiskFull, digest, write_atomically

_MOST_SECONDS = 30 * 24 * 3600
_SUM = 64  # hex digits before the content


def load(kind: str, key: object) -> bytes | None:
    """Return the bytes that were kept under a key (its ``repr`` counts), or None.

    Reading a pickle can run code, so nothing is read from a folder that other users can write.
    """
    path = _path(kind, key)
    with suppress(OSError):
        state = path.parent.stat()
        if state.st_uid == os.getuid() and not state.st_mode & 0o022:
            data = path.read_bytes()
            if data[:_SUM] == digest(data[_SUM:]).encode():
                os.utime(path)
                return data[_SUM:]
    return None


def has(kind: str, key: object) -> bool:
    """Return whether something is kept under a key; ``load`` says whether it is whole."""
    return _path(kind, key).exists()


def save(kind: str, key: object, data: bytes) -> None:
    """Keep ``data`` under a key. A process that keeps something removes what was not used for 30 days, once."""
    path = _path(kind, key)
    with suppress(OSError, DiskFull):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old(path.parent)
        write_atomically(path, digest(data).encode() + data)


@cache
def _remove_old(folder: Path) -> None:
    """Look at all files of a folder, thousands of them, so a process does it once."""
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > _MOST_SECONDS:
            path.unlink()


def _path(kind: str, key: object) -> Path:
    return cache_folder(kind) / digest(repr(key), 32)
