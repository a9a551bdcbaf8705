"""A parser for the part of PDDL that ALFRED's domain and problems use.

It reads typed objects, conditions (``and``, ``or``, ``not``, ``exists`` and ``=``) and conditional effects (``when``).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from functools import cached_property

from bepo.core.errors import UserError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_MOST_DISJUNCTS = 4096  # of a condition in disjunctive normal form; ALFRED's have a few
ROOT = "object"
"""The type that every object has."""


class Unsupported(UserError):
    """A construct in a game's files that the fast engine cannot interpret."""

    def __init__(self, what: str) -> None:
        super().__init__(f"env.engine=fast cannot interpret {what}; choose env.engine=textworld")


def parse(text: str) -> list:
    """Return an s-expression as nested lists of lower-case tokens.

    Comments are skipped. Raises ``ValueError`` for unbalanced parentheses.
    """
    text = "\n".join(line.split(";", 1)[0] for line in text.lower().split("\n"))
    stack: list[list] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            inner = stack.pop()
            stack[-1].append(inner)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError("PDDL with unbalanced parentheses")
    return stack[0][0]


def typed(tokens: list[str]) -> list[tuple[str, str]]:
    """Return a typed list such as ``?a ?b - t ?c`` as pairs of name and type.

    ALFRED's domain contains ``- location,``, with a comma, once. Like textworld's translator, this reads it as a
    separate type without objects. Visible objects can therefore be examined only while they are held.
    """
    pairs, untyped, i = [], [], 0
    while i < len(tokens):
        if tokens[i] == "-":
            pairs += [(name, tokens[i + 1]) for name in untyped]
            untyped, i = [], i + 2
        else:
            untyped.append(tokens[i])
            i += 1
    return pairs + [(name, ROOT) for name in untyped]


@dataclass
class Literal:
    """An atom or a negated atom; arguments that begin with ``?`` are variables."""

    predicate: str
    arguments: tuple[str, ...]
    positive: bool = True


@dataclass
class Conjunction:
    """A conjunction of literals over parameters and existentially quantified variables."""

    literals: list[Literal] = field(default_factory=list)
    local: dict[str, str] = field(default_factory=dict)  # existentially quantified variable -> type


@dataclass
class Effect:
    """An effect of an action: the literal becomes true if the condition holds."""

    literal: Literal
    condition: list[Conjunction] | None = None  # one of these must hold; None: always


@dataclass
class Action:
    """An action schema."""

    name: str
    parameters: dict[str, str]  # variable -> type
    precondition: list[Conjunction]  # one of these must hold
    effects: list[Effect]


@dataclass
class Domain:
    """A PDDL domain."""

    supertypes: dict[str, str]  # type -> its direct supertype
    predicates: dict[str, tuple[str, ...]]  # predicate -> declared types of its arguments
    constants: dict[str, str]  # object -> type
    actions: list[Action]

    def subtypes(self, name: str) -> set[str]:
        """Return a type and all types below it."""
        types, left = {name}, [name]
        while left:
            more = self._direct.get(left.pop(), set()) - types
            types |= more
            left += more
        return types

    @cached_property
    def _direct(self) -> dict[str, set[str]]:
        """The types directly below each type."""
        subtypes: dict[str, set[str]] = {}
        for name, supertype in self.supertypes.items():
            subtypes.setdefault(supertype, set()).add(name)
        return subtypes


@dataclass
class Problem:
    """A PDDL problem: the objects, initial facts and goal of one game."""

    objects: dict[str, str]  # name -> type
    facts: list[tuple[str, ...]]  # a predicate and its arguments each
    goal: list[Conjunction]  # one of these must hold


def parse_domain(text: str) -> Domain:
    """Return the domain that a PDDL text defines. Raises ``Unsupported`` for constructs outside this module."""
    sections = _sections(parse(text))
    types = dict(typed([w for s in sections.get(":types", []) for w in s]))
    predicates = {p[0]: tuple(t for _, t in typed(p[1:])) for s in sections.get(":predicates", []) for p in s}
    constants = dict(typed([w for s in sections.get(":constants", []) for w in s]))
    if ":derived" in sections:
        raise Unsupported("derived predicates")
    actions = [_action(s) for s in sections[":action"]]
    return Domain({t: above for t, above in types.items() if t != ROOT}, predicates, constants, actions)


def parse_problem(text: str) -> Problem:
    """Return the problem that a PDDL text defines. Raises ``Unsupported`` for constructs outside this module."""
    sections = _sections(parse(text))
    objects = dict(typed([w for s in sections[":objects"] for w in s]))
    facts = [tuple(fact) for s in sections[":init"] for fact in s if fact[0] != "="]
    (goal,) = sections[":goal"]
    return Problem(objects, facts, disjuncts(goal[0]))


def _sections(tree: list) -> dict[str, list[list]]:
    """Return the parts of a definition by their first token, such as ``:init``."""
    sections: dict[str, list[list]] = {}
    for part in tree[1:]:
        sections.setdefault(part[0], []).append(part[1:])
    return sections


def _action(tree: list) -> Action:
    parts = {tree[i]: tree[i + 1] for i in range(1, len(tree), 2)}
    return Action(
        tree[0],
        dict(typed(parts.get(":parameters", []))),
        disjuncts(parts.get(":precondition", [])),
        _effects(parts[":effect"], None),
    )


def _effects(tree: list, condition: list[Conjunction] | None) -> list[Effect]:
    head = tree[0] if tree else "and"
    if head == "and":
        return [e for part in tree[1:] for e in _effects(part, condition)]
    if head == "increase":  # costs of actions matter to planners only
        return []
    if head == "when":
        return _effects(tree[2], disjuncts(tree[1]))
    if head == "forall":
        raise Unsupported("effects with forall")
    if head == "not":
        return [Effect(Literal(tree[1][0], tuple(tree[1][1:]), False), condition)]
    return [Effect(Literal(head, tuple(tree[1:])), condition)]


def disjuncts(tree: list, positive: bool = True) -> list[Conjunction]:
    """Return the disjunctive normal form of a condition (of its negation, if ``positive`` is false)."""
    head = tree[0] if tree else "and"
    if head == "not":
        return disjuncts(tree[1], not positive)
    if head in ("and", "or"):
        parts = [disjuncts(part, positive) for part in tree[1:]]
        return _conjoin(parts) if (head == "and") == positive else [c for part in parts for c in part]
    if head == "exists" and positive:
        names = dict(typed(tree[1]))
        return [_with_fresh_variables(c, names) for c in disjuncts(tree[2])]
    if head in ("exists", "forall", "imply"):
        raise Unsupported(f"the condition ({head} ...)" if positive else f"a negated ({head} ...)")
    return [Conjunction([Literal(head, tuple(tree[1:]), positive)])]


def _conjoin(parts: list[list[Conjunction]]) -> list[Conjunction]:
    """Return the conjunction of several disjunctive normal forms, in disjunctive normal form."""
    products = [Conjunction()]
    for part in parts:
        if len(products) * len(part) > _MOST_DISJUNCTS:
            raise UserError(f"a game has a condition with more than {_MOST_DISJUNCTS} alternatives")
        products = [Conjunction(a.literals + b.literals, a.local | b.local) for a in products for b in part]
    return products


_scopes = itertools.count()


def _with_fresh_variables(inner: Conjunction, names: dict[str, str]) -> Conjunction:
    """Return ``inner`` with new names for its quantified variables, so that two scopes can use the same names."""
    scope = next(_scopes)
    new = {name: f"{name}'{scope}" for name in names}
    literals = [Literal(x.predicate, tuple(new.get(a, a) for a in x.arguments), x.positive) for x in inner.literals]
    return Conjunction(literals, inner.local | {new[name]: kind for name, kind in names.items()})
