"""The PDDL facts that hold in a game (ground atoms), indexed by every combination of arguments that is looked up."""

from __future__ import annotations

from collections.abc import Iterable

Arguments = tuple[str, ...]
Shape = tuple[str, tuple[int, ...]]
"""How facts are looked up: by the predicate and the positions of the known arguments."""
Index = dict[Arguments, set[Arguments]]
"""Maps the known arguments to all arguments of the facts that have them."""


class Facts:
    """A set of facts. Copies share the facts, and their indices, of predicates that no action changes."""

    def __init__(self, facts: Iterable[Arguments], changing: set[str]) -> None:
        """A fact is a predicate and its arguments; ``changing`` are the predicates that actions change."""
        self._changing = changing
        self._facts: dict[str, set[Arguments]] = {}
        for predicate, *arguments in facts:
            self._facts.setdefault(predicate, set()).add(tuple(arguments))
        self._fixed: dict[Shape, Index] = {}
        self._moving: dict[str, dict[Shape, Index]] = {p: {} for p in changing}

    def copy(self) -> Facts:
        """Return a copy that can be changed without changing this one."""
        twin = object.__new__(Facts)
        twin._changing, twin._fixed = self._changing, self._fixed
        twin._facts = {p: set(s) if p in self._changing else s for p, s in self._facts.items()}
        twin._moving = {
            p: {shape: {k: set(v) for k, v in index.items()} for shape, index in indices.items()}
            for p, indices in self._moving.items()
        }
        return twin

    def changeable(self) -> frozenset[tuple[str, Arguments]]:
        """Return the facts that actions can change, which identify a state of a game."""
        return frozenset((p, arguments) for p in self._changing for arguments in self._facts.get(p, ()))

    def index(self, predicate: str, positions: tuple[int, ...]) -> Index:
        """Return the facts of a predicate, keyed by their arguments at ``positions``; ``()`` puts all under one key."""
        shape = (predicate, positions)
        indices = self._moving.get(predicate, self._fixed)
        if shape not in indices:
            index = indices[shape] = {}
            for arguments in self._facts.get(predicate, ()):
                index.setdefault(tuple([arguments[p] for p in positions]), set()).add(arguments)
        return indices[shape]

    def all(self, predicate: str) -> set[Arguments]:
        """Return the arguments of every fact of a predicate."""
        return self._facts.setdefault(predicate, set())

    def holds(self, predicate: str, arguments: Arguments) -> bool:
        """Return whether a fact holds."""
        return arguments in self._facts.get(predicate, ())

    def add(self, predicate: str, arguments: Arguments) -> None:
        """Add a fact of a predicate that actions change."""
        self.all(predicate).add(arguments)
        for (_, positions), index in self._moving[predicate].items():
            index.setdefault(tuple([arguments[p] for p in positions]), set()).add(arguments)

    def remove(self, predicate: str, arguments: Arguments) -> None:
        """Remove a fact, if it holds, of a predicate that actions change."""
        self.all(predicate).discard(arguments)
        for (_, positions), index in self._moving[predicate].items():
            index.get(tuple([arguments[p] for p in positions]), set()).discard(arguments)
