"""The data files of the original WebShop: finds them, names missing files, and reads the catalogue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from bepo.core.errors import Missing
from bepo.core.places import cache_folder
from bepo.envs.webshop import cache
from bepo.envs.webshop.catalogue import Catalogue
from bepo.envs.webshop.json_files import JsonList, JsonObject, scan
from bepo.store.files import digest, write_atomically
from bepo.store.locks import locked

Size = Literal["small", "full"]
FILES = {
    "small": ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"),
    "full": ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"),
}
"""For each size of the catalogue: the files of products, attributes and human instructions."""
_DOWNLOADS = {  # ids on Google Drive, from setup.sh of the original
    "items_shuffle_1000.json": "1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib",
    "items_ins_v2_1000.json": "1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu",
    "items_shuffle.json": "1A2whVgOO0euk5O13n2iYDM0bQRkkRduB",
    "items_ins_v2.json": "1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi",
    "items_human_ins.json": "14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O",
}
_CACHE_VERSION = 3  # raise it when Catalogue, Index or the classes of json_files change
_ENDS = 1 << 16  # bytes at the beginning and at the end of a file that its digest covers


def folder(path: str) -> Path:
    """Return ``path``, or if it is empty the folder in the environment variable WEBSHOP_DATA."""
    return Path(path or os.environ.get("WEBSHOP_DATA", "")).expanduser()


def missing(path: str, size: Size) -> Missing | None:
    """Return ``Missing`` for the first missing file, or if no folder is set; None if all files are there."""
    if not path and not os.environ.get("WEBSHOP_DATA"):
        return Missing("env.path and WEBSHOP_DATA are not set", "export WEBSHOP_DATA=FOLDER (docs/webshop.md)")
    for file in _paths(path, size):
        if not file.is_file():
            return Missing(f"{file}: no such file", f"pip install gdown && gdown {_DOWNLOADS[file.name]} -O {file}")
    return None


def files_digest(path: str, size: Size) -> str:
    """Return a digest of the files' names, sizes, beginnings and ends.

    It is quick to compute and does not depend on the folder.
    """
    parts = []
    for file in _paths(path, size):
        length = file.stat().st_size
        with file.open("rb") as content:
            parts += [f"{file.name} {length}".encode(), content.read(_ENDS)]
            content.seek(max(length - _ENDS, 0))
            parts.append(content.read())
    return digest(b"".join(parts), 16)


@lru_cache(maxsize=2)
def catalogue(path: str, size: Size) -> Catalogue:
    """Return the catalogue in a folder. Raises ``UserError`` for a broken file.

    Reading the full catalogue takes minutes, so the result is cached in ``$BEPO_CACHE/webshop``.
    """
    paths = [file.resolve() for file in _paths(path, size)]
    if size == "small":
        return _read(JsonList(paths[0]), JsonObject(paths[1]), paths[2])
    cached = cache_folder("webshop") / f"{_cache_key(paths)}.npz"
    products, attributes, human = paths
    with locked(cached.with_suffix(".lock")):
        if not cached.exists():
            entries, extra = JsonList(products), JsonObject(attributes)
            write_atomically(cached, cache.to_bytes(_read(entries, extra, human), entries, extra, cached.stem))
    return cache.read(cached, products, attributes)


def _paths(path: str, size: Size) -> list[Path]:
    return [folder(path) / name for name in FILES[size]]


def _read(products: JsonList, attributes: JsonObject, human: Path) -> Catalogue:
    instructions = ((asin, entries) for asin, _, _, entries in scan(human, "{"))
    return Catalogue(products, attributes, instructions, f"original ({products.path.name})")


def _cache_key(paths: Sequence[Path]) -> str:
    """Return a digest of the files' paths, sizes and modification times, and of the cache's format version."""
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return digest(repr((states, _CACHE_VERSION)), 16)
