"""The PDDL facts that hold in a game (ground atoms), indexed by every combination of arguments that is looked up.

``Facts.bits`` has one number for each predicate that actions change and that something reads: the set of its facts,
with a bit for each. Equal numbers mean equal facts, so results are remembered by them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Set

Arguments = tuple[str, ...]
Shape = tuple[str, tuple[int, ...]]
"""How facts are looked up: by the predicate and the positions of the known arguments."""
Index = dict[Arguments, set[Arguments]]
"""Maps the known arguments to all arguments of the facts that have them."""


_NO_FACTS: frozenset[Arguments] = frozenset()


class Facts:
    """A set of facts. Copies share the facts, and their indices, of predicates that no action changes."""

    def __init__(self, facts: Iterable[Arguments], changing: set[str], read: Container[str]) -> None:
        """A fact is a predicate and its arguments. ``changing`` are the predicates that actions change, ``read`` those
        that decide what happens. Facts of the others, such as ``not_checked``, are kept only if ``changing`` has them.
        """
        self._changing = changing
        self._facts: dict[str, set[Arguments]] = {}
        for predicate, *arguments in facts:
            self._facts.setdefault(predicate, set()).add(tuple(arguments))
        self._fixed: dict[Shape, Index] = {}
        self._moving: dict[str, dict[Shape, Index]] = {p: {} for p in changing}
        self._bit: dict[str, dict[Arguments, int]] = {p: {} for p in sorted(changing) if p in read}
        self.bits: dict[str, int] = dict.fromkeys(self._bit, 0)
        for predicate in self._bit:
            for arguments in sorted(self._facts.get(predicate, ())):
                self.bits[predicate] |= self._bit_of(predicate, arguments)

    def copy(self) -> Facts:
        """Return a copy that can be changed without changing this one."""
        twin = object.__new__(Facts)
        twin._changing, twin._fixed, twin._bit, twin.bits = self._changing, self._fixed, self._bit, self.bits.copy()
        twin._facts = {p: set(s) if p in self._changing else s for p, s in self._facts.items()}
        twin._moving = {
            p: {shape: {k: set(v) for k, v in index.items()} for shape, index in indices.items()}
            for p, indices in self._moving.items()
        }
        return twin

    def _bit_of(self, predicate: str, arguments: Arguments) -> int:
        known = self._bit[predicate]
        return known.setdefault(arguments, 1 << len(known))

    def index(self, predicate: str, positions: tuple[int, ...]) -> Index:
        """Return the facts of a predicate, keyed by their arguments at ``positions``; ``()`` puts all under one key."""
        shape = (predicate, positions)
        indices = self._moving.get(predicate, self._fixed)
        if shape not in indices:
            index = indices[shape] = {}
            for arguments in self._facts.get(predicate, ()):
                index.setdefault(tuple([arguments[p] for p in positions]), set()).add(arguments)
        return indices[shape]

    def lookup(self, predicate: str, positions: tuple[int, ...], known: Arguments) -> Set[Arguments]:
        """Return the facts of a predicate that have the ``known`` arguments at ``positions``."""
        return self.index(predicate, positions).get(known, _NO_FACTS)

    def all(self, predicate: str) -> set[Arguments]:
        """Return the arguments of every fact of a predicate."""
        return self._facts.setdefault(predicate, set())

    def holds(self, predicate: str, arguments: Arguments) -> bool:
        """Return whether a fact holds."""
        return arguments in self._facts.get(predicate, ())

    def add(self, predicate: str, arguments: Arguments) -> None:
        """Add a fact of a predicate that actions change; of another one, do nothing."""
        if (indices := self._moving.get(predicate)) is None:
            return
        self.all(predicate).add(arguments)
        if predicate in self.bits:
            self.bits[predicate] |= self._bit_of(predicate, arguments)
        for (_, positions), index in indices.items():
            index.setdefault(tuple([arguments[p] for p in positions]), set()).add(arguments)

    def remove(self, predicate: str, arguments: Arguments) -> None:
        """Remove a fact, if it holds, of a predicate that actions change; of another one, do nothing."""
        if (indices := self._moving.get(predicate)) is None:
            return
        self.all(predicate).discard(arguments)
        if predicate in self.bits:
            self.bits[predicate] &= ~self._bit_of(predicate, arguments)
        for (_, positions), index in indices.items():
            index.get(tuple([arguments[p] for p in positions]), set()).discard(arguments)


class Recorder:
    """Facts that record what is looked up in them: equal answers later mean that the result is the same."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.lookups: list[tuple[str, tuple[int, ...], Arguments, Set[Arguments]]] = []
        """The arguments and the answer of each call of ``lookup`` for a predicate that actions change."""

    def lookup(self, predicate: str, positions: tuple[int, ...], known: Arguments) -> Set[Arguments]:
        """Look up as ``Facts.lookup`` does, and record the answer."""
        matches = self._facts.lookup(predicate, positions, known)
        if predicate in self._facts.bits:
            self.lookups.append((predicate, positions, known, frozenset(matches)))
        return matches
