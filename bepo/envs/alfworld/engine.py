"""The fast engine: interprets a game's PDDL and grammar in Python, with the same transcripts as textworld.

Observations, admissible commands and success equal those of textworld's ``PddlEnv`` with ALFWorld's demangler word for
word. Three properties of textworld are kept on purpose: actions that change nothing are inadmissible (such as going to
where the player already is), lists name objects in the order of their IDs, and commands must match exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from bepo.envs.alfworld.facts import Arguments, Facts
from bepo.envs.alfworld.grammar import Grammar, split_task
from bepo.envs.alfworld.names import display_names
from bepo.envs.alfworld.pddl import ROOT, Domain, Unsupported, parse_domain, parse_problem
from bepo.envs.alfworld.queries import Context, World
from bepo.envs.alfworld.rules import CompiledAction, compile_action, matcher

NOTHING_HAPPENS = "Nothing happens."
"""The feedback to an inadmissible command."""
GroundAction = tuple[int, Arguments]
"""The number of an action in the domain, and its arguments."""


class CompiledGame:
    """The parts of a game that all its episodes share.

    Raises ``Unsupported`` for files that the fast engine cannot interpret.
    """

    def __init__(self, game_file: Mapping[str, Any]) -> None:
        """``game_file`` is the content of a ``game.tw-pddl``."""
        self.domain, self.actions, changing, subtypes = _domain(game_file["pddl_domain"])
        grammar, task = split_task(game_file["grammar"])
        self.grammar = _grammar(grammar)
        _check_queries(self.grammar, self.actions)
        self._positions_in_command = [self._arguments_in_command(action) for action in self.actions]
        problem = parse_problem(game_file["pddl_problem"])
        self.start = Facts(problem.facts, changing | {f"not_{p}" for p in changing})
        types = {**self.domain.constants, **problem.objects}
        self.objects = _objects_by_type(types, self.domain)
        mentioned = {argument for fact in problem.facts for argument in fact[1:]}
        self.world = World(display_names(mentioned), types, subtypes, task)
        self._goal = matcher(problem.goal, {}, self.domain)
        self._texts: dict[GroundAction, str] = {}
        self._commands: dict[GroundAction, str | None] = {}
        for ask in (self.applicable, self.won):  # builds the indices, which copies of the facts inherit
            ask(self.start)

    def won(self, facts: Facts) -> bool:
        """Return whether the facts satisfy the goal."""
        return bool(self._goal(facts, self.objects))

    def context(self, facts: Facts, ground: GroundAction | None = None) -> Context:
        """Return the context from which the grammar derives the texts of an action, or of the introduction."""
        if ground is None:
            return Context(facts, self.world, {}, {})
        action, arguments = self.actions[ground[0]], ground[1]
        names = [p.strip("?") for p in action.parameters]
        binding = {(name, kind): a for name, kind, a in zip(names, action.types, arguments)}
        return Context(facts, self.world, binding, dict(zip(names, arguments)))

    def command(self, ground: GroundAction, facts: Facts) -> str | None:
        """Return the command for an action, or None if the action changes nothing."""
        if ground not in self._commands:
            number, arguments = ground
            action = self.actions[number]
            # Cached, because many actions differ only in arguments that their command does not name.
            named = (number, tuple(arguments[i] for i in self._positions_in_command[number]))
            if named not in self._texts:
                template = self.grammar.templates[action.name]
                self._texts[named] = self.grammar.derive(template, self.context(facts, ground))
            self._commands[ground] = self._texts[named] if action.changes(arguments) else None
        return self._commands[ground]

    def applicable(self, facts: Facts) -> dict[str, GroundAction]:
        """Return the action of each admissible command, in sorted order of the commands."""
        actions = {}
        for number, action in enumerate(self.actions):
            for arguments in action.instances(facts, self.objects):
                command = self.command((number, arguments), facts)
                ground = (number, arguments)
                if command is not None and (command not in actions or ground < actions[command]):
                    actions[command] = ground
        return dict(sorted(actions.items()))

    def _arguments_in_command(self, action: CompiledAction) -> list[int]:
        """Return the positions of the arguments that the command of an action depends on."""
        names = [p.strip("?") for p in action.parameters]
        variables = self.grammar.variables_in(self.grammar.templates[action.name], names)
        return [i for i, name in enumerate(names) if variables is None or name in variables]


class FastGame:
    """One episode of a game on the fast engine."""

    def __init__(self, game: Mapping[str, Any] | CompiledGame) -> None:
        """``game`` is a compiled game, or the content of a ``game.tw-pddl``."""
        self.game = game if isinstance(game, CompiledGame) else CompiledGame(game)

    def reset(self) -> str:
        """Start the episode, and return the introduction, which ends with the task."""
        self.facts = self.game.start.copy()
        self._update()
        return self.game.grammar.derive("#intro#", self.game.context(self.facts))

    def copy(self) -> FastGame:
        """Return a copy of the episode that can go on without changing this one."""
        twin = FastGame(self.game)
        twin.facts, twin.won = self.facts.copy(), self.won
        twin.admissible, twin._applicable = self.admissible, self._applicable
        return twin

    def step(self, command: str) -> str:
        """Act, and return the feedback. An inadmissible command changes nothing."""
        ground = self._applicable.get(command.strip())
        if ground is None:
            return NOTHING_HAPPENS
        action = self.game.actions[ground[0]]
        action.apply(self.facts, ground[1])
        self._update()
        return self.game.grammar.derive(self.game.grammar.feedback[action.name], self.game.context(self.facts, ground))

    def applicable(self) -> list[tuple[str, Arguments, str]]:
        """Return ``(action, arguments, command)`` of each admissible command, in sorted order of the commands."""
        actions = self.game.actions
        return [(actions[number].name, arguments, command) for command, (number, arguments) in self._applicable.items()]

    def _update(self) -> None:
        self._applicable = self.game.applicable(self.facts)
        self.admissible = tuple(self._applicable)
        self.won = self.game.won(self.facts)


def _objects_by_type(types: Mapping[str, str], domain: Domain) -> dict[str, list[str]]:
    """Return the objects of each type and its subtypes, in the order of ``types``; empty for an undeclared type."""
    objects = defaultdict(list)
    for kind in {ROOT, *domain.supertypes}:
        subtypes = domain.subtypes(kind)
        objects[kind] = [name for name, t in types.items() if t in subtypes or kind == ROOT]
    return objects


@lru_cache(maxsize=16)
def _domain(text: str) -> tuple[Domain, list[CompiledAction], set[str], Callable[[str], set[str]]]:
    """Return the domain, its compiled actions, the predicates that they change, and a cached ``Domain.subtypes``."""
    domain = parse_domain(text)
    changing = {effect.literal.predicate for action in domain.actions for effect in action.effects}
    return domain, [compile_action(action, domain) for action in domain.actions], changing, lru_cache(domain.subtypes)


@lru_cache(maxsize=16)
def _grammar(text: str) -> Grammar:
    return Grammar(text)


def _check_queries(grammar: Grammar, actions: list[CompiledAction]) -> None:
    """Raise ``Unsupported`` for a grammar that asks for facts on which the engines could differ.

    After conditional effects, and after deletions of facts that did not hold, textworld's own list of facts no longer
    equals the planner's state. ALFRED's grammars do not ask for such facts.
    """
    queries = grammar.queries()
    if changing := grammar.command_queries() & {effect.predicate for action in actions for effect in action.effects}:
        raise Unsupported(f"command templates that ask for {', '.join(sorted(changing))}")
    for action in actions:
        required = {x.predicate for x in action.required if x.positive}
        for effect in action.effects:
            name, conditional = effect.predicate, effect.condition is not None
            drifts = conditional or (not effect.positive and name not in required)
            if drifts and (f"not_{name}" in queries or (conditional and name in queries)):
                raise Unsupported(f"grammar conditions on {name!r}")
