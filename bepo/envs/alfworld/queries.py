"""Conjunctive queries over the facts of a game, as in textworld's grammars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bepo.envs.alfworld.facts import Facts

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


@dataclass
class Context:
    """The state of a game and the values of a template's variables, from which a text is derived."""

    facts: Facts
    world: World
    binding: Binding
    variables: dict[str, str]  # variable -> id of an entity

    def extended(self, binding: Binding) -> Context:
        """Return the context with the answer to a query added."""
        return Context(self.facts, self.world, binding, self.variables | {ph[0]: i for ph, i in binding.items()})


@dataclass
class Query:
    """A conjunctive query such as ``holds(a:agent, o:object)``."""

    predicates: list[tuple[str, tuple[Placeholder, ...]]]

    def answers(self, context: Context) -> Iterator[Binding]:
        """Yield the bindings that satisfy the query and extend the context's binding, in textworld's order.

        Different placeholders stand for different entities.
        """
        return self._extensions(context, context.binding, 0)

    def _extensions(self, context: Context, binding: Binding, depth: int) -> Iterator[Binding]:
        """Yield the extensions of a binding that satisfy the predicates from number ``depth`` on."""
        if depth == len(self.predicates):
            yield binding
            return
        name, placeholders = self.predicates[depth]
        positions = tuple(i for i, ph in enumerate(placeholders) if ph in binding)
        known = tuple(binding[placeholders[i]] for i in positions)
        used = set(binding.values())
        world = context.world
        for fact in sorted(context.facts.index(name, positions).get(known, ())):
            fresh = {ph: v for ph, v in zip(placeholders, fact) if ph not in binding}
            distinct = len(set(fresh.values())) == len(fresh) and not used & set(fresh.values())
            consistent = all(fresh.get(ph, v) == v for ph, v in zip(placeholders, fact))
            if distinct and consistent and all(world.types[v] in world.subtypes(ph[1]) for ph, v in fresh.items()):
                yield from self._extensions(context, binding | fresh, depth + 1)


def parse_query(text: str) -> Query:
    """Parse a query such as ``at(a, l) & in(o:object, r)``.

    The type of a placeholder without a type is its name without trailing primes.
    """
    predicates = []
    for name, arguments in _PREDICATE.findall(text):
        pairs = [a.split(":") for a in arguments.split(",") if a.strip()]
        placeholders = tuple((p[0].strip(), p[-1].strip() if len(p) > 1 else p[0].strip().rstrip("'")) for p in pairs)
        predicates.append((name, placeholders))
    return Query(predicates)
