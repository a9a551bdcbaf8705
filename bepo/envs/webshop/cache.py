"""A catalogue as a file: numbers and texts, no code, so that reading it can do nothing else."""

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
"""Attributes of a catalogue that are kept as JSON."""


def to_bytes(catalogue: Catalogue, products: JsonList, attributes: JsonObject, key: str) -> bytes:
    """Return a catalogue as an npz file; of the texts in the JSON files that it was read from, only the places.

    ``key`` says which files these are; it is the name of the cache's file.
    """
    facts = {name: getattr(catalogue, name) for name in _PLAIN} | {
        "key": key,
        "numbers": dict(attributes.numbers),
        "terms": catalogue.index.terms,
    }
    arrays = {
        "facts": np.frombuffer(json.dumps(facts).encode(), np.uint8),
        "entries": np.array(catalogue.entry_numbers),
        "products": products.places,
        "attributes": attributes.places,
        **catalogue.index.arrays(),
    }
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read(path: Path, products: Path, attributes: Path) -> Catalogue:
    """Read what ``to_bytes`` wrote. Raises ``Corrupt`` for any other file, and for one of other JSON files."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
        facts = json.loads(arrays.pop("facts").tobytes())
        entries = JsonList.at(products, arrays.pop("products"))
        if facts.pop("key", path.stem) != path.stem:  # older caches do not say it
            raise ValueError("made from other files")
        extra = JsonObject.at(attributes, arrays.pop("attributes"), facts.pop("numbers"))
        numbers = arrays.pop("entries").tolist()
        index = Index.of_arrays(facts.pop("terms"), arrays)
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
        raise Corrupt(f"{path}: not a cached catalogue ({error}); remove it to make it anew") from None
    facts["left_out"] = Counter(facts["left_out"])
    facts["pricing"] = [tuple(prices) for prices in facts["pricing"]]
    facts["human_instructions"] = {
        asin: [(text, tuple(names), tuple(values)) for text, names, values in found]
        for asin, found in facts["human_instructions"].items()
    }
    return Catalogue.restored(entries, extra, numbers, index, facts)
