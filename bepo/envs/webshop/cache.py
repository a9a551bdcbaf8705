"""A cached catalogue as a file of numbers and texts. It holds no pickled objects, so reading it cannot run code."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from bepo.envs.webshop.catalogue import Catalogue
from bepo.envs.webshop.json_files import JsonList, JsonObject
from bepo.envs.webshop.search import Index
from bepo.store.files import Corrupt

_PLAIN = ("source", "digest", "left_out", "asins", "pricing", "combinations", "human_instructions")
"""The attributes of a catalogue that are stored as JSON."""


def to_bytes(catalogue: Catalogue, products: JsonList, attributes: JsonObject, key: str) -> bytes:
    """Return a catalogue as an npz file. It holds positions in the JSON files, not their texts.

    ``key`` identifies the JSON files; it is also the name of the cache file.
    """
    metadata = {name: getattr(catalogue, name) for name in _PLAIN} | {
        "key": key,
        "numbers": dict(attributes.numbers),
        "terms": catalogue.index.terms,
    }
    arrays = {
        "facts": np.frombuffer(json.dumps(metadata).encode(), np.uint8),
        "entries": np.array(catalogue.entry_numbers),
        "products": products.places,
        "attributes": attributes.places,
        **catalogue.index.arrays(),
    }
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read(path: Path, products: Path, attributes: Path) -> Catalogue:
    """Read a file of ``to_bytes``. Raises ``Corrupt`` for any other file, and if it belongs to other JSON files."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
        metadata = json.loads(arrays.pop("facts").tobytes())
        entries = JsonList.at(products, arrays.pop("products"))
        if metadata.pop("key", path.stem) != path.stem:  # older caches have no key
            raise ValueError("made from other files")
        extra = JsonObject.at(attributes, arrays.pop("attributes"), metadata.pop("numbers"))
        numbers = arrays.pop("entries").tolist()
        index = Index.of_arrays(metadata.pop("terms"), arrays)
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
        raise Corrupt(f"{path}: not a cached catalogue ({error}); remove it to make it anew") from None
    metadata["left_out"] = Counter(metadata["left_out"])
    metadata["pricing"] = [tuple(prices) for prices in metadata["pricing"]]
    metadata["human_instructions"] = {
        asin: [(text, tuple(names), tuple(values)) for text, names, values in rows]
        for asin, rows in metadata["human_instructions"].items()
    }
    return Catalogue.restored(entries, extra, numbers, index, metadata)
