"""Compiles the conditions of a PDDL domain to Python functions: nested loops over indexed facts for each disjunct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bepo.envs.alfworld.facts import Arguments, Facts
from bepo.envs.alfworld.limits import counted
from bepo.envs.alfworld.pddl import ROOT, Action, Conjunction, Domain, Literal

Matcher = Callable[[Facts, Mapping[str, Sequence[str]]], set[Arguments]]
"""Maps facts, and the objects of each type, to all values of a condition's parameters for which it holds."""


class CompiledLiteral(NamedTuple):
    """A literal of an action, an effect or a precondition, with functions for its arguments and its condition."""

    positive: bool  # whether the fact is added or deleted; of a precondition: whether it must hold
    predicate: str
    ground: Callable[[Arguments], Arguments]  # maps the action's arguments to those of the fact
    condition: Matcher | None  # finds a match if the effect takes place; None: it always does
    reads: frozenset[str]  # the predicates of the condition
    negated: str  # the predicate of the fact that a deletion leaves


@dataclass
class CompiledAction:
    """An action schema with functions in place of its conditions."""

    name: str
    parameters: tuple[str, ...]  # variables
    types: tuple[str, ...]  # of the parameters
    instances: Matcher  # gives the arguments for which the precondition holds
    effects: list[CompiledLiteral]
    required: list[CompiledLiteral]  # the literals over parameters that occur in every disjunct of the precondition
    reads: frozenset[str]  # the predicates of the precondition

    def __post_init__(self) -> None:
        required = {(x.predicate, x.positive) for x in self.required}
        added = {effect.predicate for effect in self.effects if effect.positive}
        self._always_changes = any(
            e.condition is not None
            or ((e.predicate, e.positive) not in required and (e.positive or e.predicate not in added))
            for e in self.effects
        )

    def changes(self, arguments: Arguments) -> bool:
        """Return whether the action with these arguments can change a fact.

        textworld's translator drops actions whose effects are part of their precondition.
        """
        if self._always_changes:
            return True
        required = [(x.predicate, x.positive, x.ground(arguments)) for x in self.required]
        added = [(effect.predicate, effect.ground(arguments)) for effect in self.effects if effect.positive]
        for effect in self.effects:
            atom = effect.ground(arguments)
            if not effect.positive and (effect.predicate, atom) in added:
                continue
            if effect.condition is not None or (effect.predicate, effect.positive, atom) not in required:
                return True
        return False

    def apply(self, facts: Facts, arguments: Arguments) -> None:
        """Apply all effects at once; a fact that is both deleted and added holds afterwards.

        A deleted fact leaves a fact ``not_<predicate>`` until it is added again, because grammars ask for it.
        """
        active = [
            (effect, effect.ground(arguments))
            for effect in self.effects
            if effect.condition is None or effect.condition(facts, {"": arguments})
        ]
        added = [(effect.predicate, atom) for effect, atom in active if effect.positive]
        for effect, atom in active:
            if not effect.positive and (effect.predicate, atom) not in added:
                facts.remove(effect.predicate, atom)
                facts.add(effect.negated, atom)
        for effect, atom in active:
            if effect.positive:
                facts.remove(effect.negated, atom)
                facts.add(effect.predicate, atom)


def compile_action(action: Action, domain: Domain) -> CompiledAction:
    """Compile the precondition and the effects of an action."""
    names = tuple(action.parameters)
    effects = [_compile(effect.literal, names, domain, effect.condition) for effect in action.effects]
    required = [
        _compile(x, names, domain)
        for x in action.precondition[0].literals
        if all(x in other.literals for other in action.precondition[1:]) and set(x.arguments) <= set(names)
    ]
    instances = matcher(action.precondition, action.parameters, domain)
    kinds, reads = tuple(action.parameters.values()), predicates(action.precondition)
    return CompiledAction(action.name, names, kinds, instances, effects, required, reads)


def _compile(
    literal: Literal, names: tuple[str, ...], domain: Domain, condition: Sequence[Conjunction] | None = None
) -> CompiledLiteral:
    match = None if condition is None else matcher(condition, {}, domain, given=names)
    ground = _grounder(literal.arguments, names)
    reads, negated = predicates(condition or []), f"not_{literal.predicate}"
    return CompiledLiteral(literal.positive, literal.predicate, ground, match, reads, negated)


def predicates(disjuncts: Sequence[Conjunction]) -> frozenset[str]:
    """Return the predicates that a condition reads."""
    return frozenset(x.predicate for conjunction in disjuncts for x in conjunction.literals)


def _grounder(terms: Sequence[str], names: tuple[str, ...]) -> Callable[[Arguments], Arguments]:
    """Return a function that replaces the variables among ``terms`` by their values; ``names`` are its arguments."""
    parts = [f"a[{names.index(term)}]" if term in names else repr(term) for term in terms]
    return eval(f"lambda a: ({''.join(p + ',' for p in parts)})")


def matcher(
    disjuncts: Sequence[Conjunction], parameters: Mapping[str, str], domain: Domain, given: tuple[str, ...] = ()
) -> Matcher:
    """Return a function that finds all values of ``parameters`` (variable -> type) for which a disjunct holds.

    Pass the values of the variables ``given`` under the key "" of its second argument.
    """
    body = [line for c in disjuncts for line in _Loops(c, parameters, domain, given).lines]
    unpack = [f"    {''.join(_identifier(g) + ', ' for g in given)}= objects['']"] if given else []
    begin = ["def find(facts, objects):", "    found, take = set(), counted()"]
    source = "\n".join([*begin, *unpack, *body, "    return found"])
    namespace: dict[str, Any] = {"counted": counted}
    exec(source, namespace)
    return namespace["find"]


class _Loops:
    """Writes the nested loops of one disjunct as Python source, the most restricted literals outermost."""

    def __init__(
        self, condition: Conjunction, parameters: Mapping[str, str], domain: Domain, given: tuple[str, ...]
    ) -> None:
        self.lines: list[str] = []
        self._depth, self._loops = 1, 0
        self._domain = domain
        self._types = {**parameters, **condition.local}
        self._known = set(given)
        self._remaining = list(condition.literals)
        while True:
            self._test_known_literals()
            positive = [x for x in self._remaining if x.positive and x.predicate != "="]
            if positive:
                self._loop_over_facts(min(positive, key=self._cost))
                continue
            unbound = [v for v in self._types if v not in self._known and (v in parameters or self._is_used(v))]
            if not unbound:
                break
            self._loop(_identifier(unbound[0]), f"objects[{self._types[unbound[0]]!r}]")
            self._known.add(unbound[0])
        # A quantified variable that occurs in no literal still needs an object of its type.
        for variable in condition.local:
            if variable not in self._known:
                self._open(f"if objects[{self._types[variable]!r}]:")
        self._write(f"found.add(({''.join(_identifier(p) + ', ' for p in parameters)}))")

    def _test_known_literals(self) -> None:
        for x in [x for x in self._remaining if not self._unknown(x)]:
            self._remaining.remove(x)
            self._open(f"if {_test(x)}:")

    def _loop_over_facts(self, x: Literal) -> None:
        self._remaining.remove(x)
        unknown = self._unknown(x)
        positions = tuple(i for i, argument in enumerate(x.arguments) if argument not in unknown)
        key = "".join(_value(x.arguments[i]) + ", " for i in positions)
        self._loop("fact", f"facts.index({x.predicate!r}, {positions!r}).get(({key}), ())")
        for variable in unknown:
            self._bind(variable, x)

    def _loop(self, variable: str, values: str) -> None:
        """Open a loop. Those within other loops are counted, because nested loops multiply."""
        self._open(f"for {variable} in {f'take({values})' if self._loops else values}:")
        self._loops += 1

    def _bind(self, variable: str, x: Literal) -> None:
        """Assign a variable from the current fact, and test its other occurrences and its type."""
        positions = [i for i, argument in enumerate(x.arguments) if argument == variable]
        self._write(f"{_identifier(variable)} = fact[{positions[0]}]")
        self._known.add(variable)
        tests = [f"fact[{i}] == {_identifier(variable)}" for i in positions[1:]]
        declared, kind = self._domain.predicates.get(x.predicate, ()), self._types.get(variable, ROOT)
        if kind != ROOT and (len(declared) <= positions[0] or declared[positions[0]] != kind):
            tests.append(f"{_identifier(variable)} in objects[{kind!r}]")
        if tests:
            self._open(f"if {' and '.join(tests)}:")

    def _unknown(self, x: Literal) -> list[str]:
        return [a for a in dict.fromkeys(x.arguments) if a.startswith("?") and a not in self._known]

    def _is_used(self, variable: str) -> bool:
        return any(variable in x.arguments for x in self._remaining)

    def _cost(self, x: Literal) -> tuple[int, int]:
        """Return the number of unknown variables (agents excluded: there is one agent) and minus the known ones."""
        loops = sum(self._types.get(variable) != "agent" for variable in self._unknown(x))
        return loops, -(len(x.arguments) - loops)

    def _write(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def _open(self, text: str) -> None:
        """Write the first line of a block, and indent the following lines."""
        self._write(text)
        self._depth += 1


def _test(x: Literal) -> str:
    """Return Python source that tests a literal without unknown variables."""
    if x.predicate == "=":
        return f"{_value(x.arguments[0])} {'==' if x.positive else '!='} {_value(x.arguments[1])}"
    atom = "".join(_value(a) + ", " for a in x.arguments)
    return f"{'' if x.positive else 'not '}facts.holds({x.predicate!r}, ({atom}))"


def _value(argument: str) -> str:
    """Return Python source for the value of an argument."""
    return _identifier(argument) if argument.startswith("?") else repr(argument)


def _identifier(variable: str) -> str:
    """Return a Python identifier for a PDDL variable."""
    return "v_" + "".join(c if c.isalnum() else f"_{ord(c)}_" for c in variable)
