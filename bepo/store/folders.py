"""Folders as a whole: digests of their files, sizes, copies, what a killed process left, and space for one more."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from bepo.store.files import Corrupt, digest_of_file
from bepo.store.json_files import field, read_sealed, write_sealed


def remove_leftovers(folder: Path, seconds: float = 0.0) -> None:
    """Remove files and folders that a killed process left half written (``*.part``), at least ``seconds`` old."""
    for part in folder.glob("*.part"):
        with suppress(OSError):  # another process removed it
            if time.time() - part.stat().st_mtime >= seconds:
                shutil.rmtree(part) if part.is_dir() else part.unlink()


def make_space(checkpoints: list[Path], keep: int) -> None:
    """Remove the oldest checkpoints (the newest comes first) until one more of the newest's size fits on the disk.

    The newest stays unless ``keep`` is 0: without it, a run that is killed during the next checkpoint starts again.
    If this cannot free enough space, all checkpoints stay and the run ends.
    """
    if not checkpoints:
        return
    left, sizes = list(checkpoints), [size_of_folder(path) for path in checkpoints]
    missing = sizes[0] + sizes[0] // 20 - shutil.disk_usage(left[0].parent).free  # 5 % for file-system metadata
    if missing > sum(sizes[min(keep, 1) :]):
        return
    while missing > 0:
        oldest, size = left.pop(), sizes.pop()
        shutil.rmtree(oldest.rename(oldest.with_suffix(".part")))  # a kill must not leave half a checkpoint
        missing -= size
        print(f"{oldest}: removed, because the disk is too full for the next checkpoint", file=sys.stderr)


def set_aside(path: Path, folder: Path) -> Path:
    """Move a file or folder to ``folder/refused-NAME``, with a number behind it if this is taken. Return its path."""
    names = (f"refused-{path.name}{f'-{n}' * (n > 1)}" for n in count(1))
    return path.rename(next(place for name in names if not (place := folder / name).exists()))


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
    present = digests_of_folder(path)
    present.pop(name)
    expected = field(metadata, "files", dict, path / name)
    metadata.pop("files")
    changed = [file for file in present.keys() | expected.keys() if present.get(file) != expected.get(file)]
    if changed:
        raise Corrupt(f"{path / min(changed)}: {_change(min(changed), present, expected)} since {name} was written")
    return metadata


def _change(file: str, present: dict[str, str], expected: dict[str, str]) -> str:
    return "lost" if file not in present else "added" if file not in expected else "changed"


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
