"""A bounded memory of results, which all games of a process share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """At most ``size`` results by their keys. The oldest ones are forgotten first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self.get = self._known.get

    def put(self, key: Hashable, result: T) -> T:
        """Store a result, and return it."""
        self._known[key] = result
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        return result

    def __len__(self) -> int:
        return len(self._known)
