"""The ids of objects and receptacles in ALFRED problems, and the names that players see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_MANGLED = {"|": "_bar_", "+": "_plus_", "-": "_minus_", ".": "_dot_", ",": "_comma_"}


def mangle(identifier: str) -> str:
    """Return an ID such as ``Cabinet|+00.68|..`` as a PDDL name, without the symbols ``|+-.,``."""
    for symbol, word in _MANGLED.items():
        identifier = identifier.replace(symbol, word)
    return identifier


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the name of each mangled id, such as ``cabinet 3``, as ALFWorld's demangler gives it.

    A name is a type and a number; the first ID of a type in sorted order has the highest number. An ID that contains
    ``basin`` is a basin. An ID without coordinates keeps its name, with a blank after it.
    """
    ids = sorted(ids)
    kind = {i: i.split("_bar_", 1)[0] + ("basin" if "basin" in i else "") for i in ids if "_bar_" in i}
    remaining = Counter(kind.values())
    names = {}
    for i in ids:
        if i in kind:
            names[i] = f"{kind[i]} {remaining[kind[i]]}"
            remaining[kind[i]] -= 1
        else:
            names[i] = f"{i} "
    return names
