"""Locks that processes share: files that are held until their release or the end of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


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
