"""Conjunctive queries over the facts of a game, as in textworld's grammars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bepo.envs.alfworld.facts import Facts, Recorder
from bepo.envs.alfworld.limits import MOST_FACTS, MOST_OF_CONDITION, Counter, check_size

Placeholder = tuple[str, str]
"""The name and the type of a variable in a query."""
Binding = dict[Placeholder, str]
"""Maps placeholders to ids of entities."""

_PREDICATE = re.compile(r"\s*(!?[\w/]+)\s*\(([^()]*)\)\s*")


@dataclass
class World:
    """The entities of a game, and its task."""

    names: dict[str, str]  # id -> name that players see
    types: dict[str, str]  # id -> type
    subtypes: Callable[[str], set[str]]  # maps a type to itself and all types below it
    task: str  # the text of the grammar's rule "task"; games share the rest of the grammar
    looked_at: Counter = field(default_factory=lambda: Counter(MOST_FACTS, "facts for one text"))


@dataclass
class Context:
    """The state of a game and the values of a template's variables, from which a text is derived."""

    facts: Facts | Recorder
    world: World
    binding: Binding
    variables: dict[str, str]  # variable -> id of an entity

    def extended(self, binding: Binding) -> Context:
        """Return the context with the answer to a query added."""
        return Context(self.facts, self.world, binding, self.variables | {ph[0]: i for ph, i in binding.items()})


class _Lookup(NamedTuple):
    """How a predicate of a query is looked up, once the placeholders before it are bound."""

    predicate: str
    positions: tuple[int, ...]  # of the bound arguments
    bound: tuple[Placeholder, ...]
    fresh: tuple[
        tuple[Placeholder, int], ...
    ]  # the other placeholders, and the position of each one's first occurrence
    repeated: tuple[tuple[int, int], ...]  # positions that must be equal


@dataclass
class Query:
    """A conjunctive query such as ``holds(a:agent, o:object)``."""

    predicates: list[tuple[str, tuple[Placeholder, ...]]]
    _lookups: dict[tuple[Placeholder, ...], list[_Lookup]] = field(
        default_factory=dict
    )  # by the placeholders that are bound at first

    def answers(self, context: Context) -> Iterator[Binding]:
        """Yield the bindings that satisfy the query and extend the context's binding, in textworld's order.

        Different placeholders stand for different entities.
        """
        given = tuple(context.binding)
        if given not in self._lookups:
            self._lookups[given] = self._planned(given)
        return self._extensions(context, context.binding, self._lookups[given], 0)

    def _planned(self, given: tuple[Placeholder, ...]) -> list[_Lookup]:
        known, lookups = set(given), []
        for name, placeholders in self.predicates:
            first = {ph: placeholders.index(ph) for ph in placeholders if ph not in known}
            bound = [(i, ph) for i, ph in enumerate(placeholders) if ph in known]
            repeated = [(first[ph], i) for i, ph in enumerate(placeholders) if ph in first and i != first[ph]]
            positions, names = tuple(i for i, _ in bound), tuple(ph for _, ph in bound)
            lookups.append(_Lookup(name, positions, names, tuple(first.items()), tuple(repeated)))
            known |= set(placeholders)
        return lookups

    def _extensions(self, context: Context, binding: Binding, lookups: list[_Lookup], depth: int) -> Iterator[Binding]:
        """Yield the extensions of a binding that satisfy the predicates from number ``depth`` on."""
        if depth == len(lookups):
            yield binding
            return
        predicate, positions, bound, fresh, repeated = lookups[depth]
        facts = context.facts.lookup(predicate, positions, tuple([binding[ph] for ph in bound]))
        if not facts:
            return
        used, world = set(binding.values()), context.world
        world.looked_at.take(len(facts))
        for fact in sorted(facts):
            values = [fact[i] for _, i in fresh]
            if not used.isdisjoint(values) or len(set(values)) < len(values):
                continue
            if all(fact[i] == fact[j] for i, j in repeated) and all(
                world.types[v] in world.subtypes(ph[1]) for (ph, _), v in zip(fresh, values)
            ):
                extended = {**binding, **{ph: v for (ph, _), v in zip(fresh, values)}}
                yield from self._extensions(context, extended, lookups, depth + 1)


def parse_query(text: str) -> Query:
    """Parse a query such as ``at(a, l) & in(o:object, r)``.

    The type of a placeholder without a type is its name without trailing primes.
    """
    check_size(text, "a condition", MOST_OF_CONDITION)
    predicates = []
    for name, arguments in _PREDICATE.findall(text):
        pairs = [a.split(":") for a in arguments.split(",") if a.strip()]
        placeholders = tuple((p[0].strip(), p[-1].strip() if len(p) > 1 else p[0].strip().rstrip("'")) for p in pairs)
        predicates.append((name, placeholders))
    return Query(predicates)
