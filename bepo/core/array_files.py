"""Files of named arrays (.npz) with a format version and a checksum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from bepo.core.errors import UserError

FORMAT_VERSION = 2

T = TypeVar("T")


def write_arrays(arrays: Mapping[str, object]) -> bytes:
    """Return the arrays as an npz file; those that are None are left out.

    ``format_version`` is 2, and ``digest`` is the checksum of all other arrays. See docs/files.md.
    """
    known = {name: np.asarray(value) for name, value in arrays.items() if value is not None}
    known["format_version"] = np.asarray(FORMAT_VERSION)
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, digest=np.asarray(_digest(known)), **known)
    return file.getvalue()


def read_arrays(path: str | Path | IO[bytes], make: Callable[[dict[str, np.ndarray]], T]) -> T:
    """Read a file that ``write_arrays`` wrote, and return what ``make`` makes of its arrays. Format 1 has no checksum.

    Raises ``UserError`` for any other file, a file that was changed, and arrays that ``make`` refuses.
    """
    try:
        if isinstance(path, str | Path) and Path(path).exists() and not Path(path).is_file():
            raise UserError(f"{path}: not a regular file")  # reading a FIFO would block
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        version = int(arrays["format_version"])
        if version not in (1, FORMAT_VERSION):
            raise UserError(f"{path}: format version {version}; this bepo reads 1 and {FORMAT_VERSION}")
        if version > 1 and str(arrays.pop("digest")) != _digest(arrays):
            raise UserError(f"{path}: changed since it was written")
        del arrays["format_version"]
        return make(arrays)
    except UserError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except Exception as error:
        raise UserError(f"{path}: not a saved rollout batch ({error})") from error


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of names, types, shapes and contents as 64 hex digits."""
    sha = sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
