"""The fast engine: interprets a game's PDDL and grammar in Python, with the same transcripts as textworld.

Observations, admissible commands and success equal those of textworld's ``PddlEnv`` with ALFWorld's demangler word for
word. Three properties of textworld are kept on purpose: actions that change nothing are inadmissible (such as going to
where the player already is), lists name objects in the order of their IDs, and commands must match exactly.

Results are remembered by the facts that they depend on: the instances of an action, the feedback, the state after a
command. An episode that reaches a known state by a known command changes no facts; they are brought up to date when
something asks for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

from bepo.envs.alfworld.facts import Arguments, Facts, Recorder
from bepo.envs.alfworld.grammar import Grammar, queried_predicates, split_task
from bepo.envs.alfworld.limits import MOST_ENTITIES, MOST_OF_PDDL, Endless, check_size
from bepo.envs.alfworld.memo import Memo
from bepo.envs.alfworld.names import display_names
from bepo.envs.alfworld.pddl import ROOT, Domain, Unsupported, parse_domain, parse_problem
from bepo.envs.alfworld.queries import Context, World
from bepo.envs.alfworld.rules import CompiledAction, compile_action, matcher, predicates

NOTHING_HAPPENS = "Nothing happens."
"""The feedback to an inadmissible command."""
GroundAction = tuple[int, Arguments]
"""The number of an action in the domain, and its arguments."""
Key = tuple[int, ...]
"""The values of ``Facts.bits``, which identify a state of a game."""


class CompiledGame:
    """The parts of a game that all its episodes share.

    Raises ``Unsupported`` for files that the fast engine cannot interpret.
    """

    def __init__(self, game_file: Mapping[str, Any]) -> None:
        """``game_file`` is the content of a ``game.tw-pddl``."""
        for part in ("pddl_domain", "pddl_problem"):
            check_size(game_file[part], part, MOST_OF_PDDL)
        self.domain, self.actions, changing, subtypes = _domain(game_file["pddl_domain"])
        grammar, task = split_task(game_file["grammar"])
        self.grammar = _grammar(grammar)
        _check_queries(self.grammar, self.actions)
        self._positions_in_command = [self._arguments_in_command(action) for action in self.actions]
        problem = parse_problem(game_file["pddl_problem"])
        read = self._read(predicates(problem.goal) | queried_predicates(task))
        self.start = Facts(problem.facts, changing | {f"not_{p}" for p in changing} & read, read)
        types = {**self.domain.constants, **problem.objects}
        if max(len(types), len(problem.facts) // 10) > MOST_ENTITIES:
            raise Endless(f"more than {MOST_ENTITIES} objects, or ten times as many facts")
        self.objects = _objects_by_type(types, self.domain)
        mentioned = {argument for fact in problem.facts for argument in fact[1:]}
        self.world = World(display_names(mentioned), types, subtypes, task)
        self._goal = matcher(problem.goal, {}, self.domain)
        self._texts: dict[GroundAction, str] = {}
        self._commands: dict[GroundAction, str | None] = {}
        self._keys = [(number, self._key_of(action.reads)) for number, action in enumerate(self.actions)][::-1]
        self._new_state(self.start)  # builds the indices, which copies of the facts inherit

    @cached_property
    def introduction(self) -> str:
        """Return the first text of an episode, which ends with the task."""
        return self.grammar.derive("#intro#", self.context(self.start))

    def won(self, facts: Facts) -> bool:
        """Return whether the facts satisfy the goal."""
        return bool(self._goal(facts, self.objects))

    def context(self, facts: Facts | Recorder, ground: GroundAction | None = None) -> Context:
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

    def _read(self, of_task: Iterable[str]) -> set[str]:
        """Return the predicates that preconditions, goal and texts read, and the conditions of effects on these."""
        read = {*of_task, *self.grammar.queries, *(p for action in self.actions for p in action.reads)}
        effects = [effect for action in self.actions for effect in action.effects]
        while more := {p for e in effects if e.predicate in read for p in e.reads} - read:
            read |= more
        return read

    def state(self, key: Key, facts: Callable[[], Facts]) -> State:
        """Return the state with these values of ``Facts.bits``; ``facts`` is called if it is new."""
        return _states.get((self, key)) or _states.put((self, key), self._new_state(facts()))

    def _new_state(self, facts: Facts) -> State:
        applicable: dict[str, GroundAction] = {}
        bits = facts.bits
        for number, key_of in self._keys:  # of equal commands, the first action counts: it is the last one here
            key = (self, number, key_of(bits))
            part = _instances.get(key)
            if part is None and (part := self._new_instances(number, facts)):  # most are empty, and quick to find
                _instances.put(key, part)
            applicable.update(part)
        return State(applicable, tuple(sorted(applicable)), self.won(facts))

    def _new_instances(self, number: int, facts: Facts) -> dict[str, GroundAction]:
        """Return the instances of an action by their commands. Of equal commands, the first arguments count."""
        instances = self.actions[number].instances(facts, self.objects)
        if len(instances) > MOST_ENTITIES:
            raise Endless(f"more than {MOST_ENTITIES} instances of an action")
        grounds = [(number, arguments) for arguments in sorted(instances, reverse=True)]
        return {text: ground for ground in grounds if (text := self.command(ground, facts)) is not None}

    def feedback(self, ground: GroundAction, facts: Facts) -> str:
        """Return the feedback to an action; ``facts`` are those after it."""
        known = _feedback.get((self, ground), ())
        for lookups, text in known:
            if all(facts.lookup(*asked) == answer for *asked, answer in lookups):
                return text
        recorder = Recorder(facts)
        template = self.grammar.feedback[self.actions[ground[0]].name]
        text = self.grammar.derive(template, self.context(recorder, ground))
        _feedback.put((self, ground), ((recorder.lookups, text), *known[: _TEXTS - 1]))
        return text

    def _key_of(self, reads: Iterable[str]) -> Callable[[Mapping[str, int]], Hashable]:
        """Return a function that gives the bits of the changeable predicates among ``reads``."""
        names = [name for name in self.start.bits if name in set(reads)]
        return itemgetter(*names) if names else lambda bits: None

    def _arguments_in_command(self, action: CompiledAction) -> list[int]:
        """Return the positions of the arguments that the command of an action depends on."""
        names = [p.strip("?") for p in action.parameters]
        variables = self.grammar.variables_in(self.grammar.templates[action.name], names)
        return [i for i, name in enumerate(names) if variables is None or name in variables]


class State:
    """The admissible commands of a state, and the replies to those that were given in it."""

    __slots__ = ("admissible", "applicable", "replies", "won")

    def __init__(self, applicable: dict[str, GroundAction], admissible: tuple[str, ...], won: bool) -> None:
        self.applicable = applicable
        """The action of each admissible command."""
        self.admissible = admissible
        """The commands in sorted order."""
        self.won = won
        self.replies: dict[str, tuple[str, GroundAction, Key]] = {}
        """Feedback, action and the next state's key for some admissible commands."""


_states: Memo[State] = Memo(10_000)  # with the instances and texts about 6 KB each
_instances: Memo[dict[str, GroundAction]] = Memo(50_000)
_feedback: Memo[tuple[tuple[list, str], ...]] = Memo(50_000)
_TEXTS = 8  # most remembered feedbacks of one action


class FastGame:
    """One episode of a game on the fast engine."""

    def __init__(self, game: Mapping[str, Any] | CompiledGame) -> None:
        """``game`` is a compiled game, or the content of a ``game.tw-pddl``."""
        self.game = game if isinstance(game, CompiledGame) else CompiledGame(game)

    def reset(self) -> str:
        """Start the episode, and return the introduction, which ends with the task."""
        self._facts, self._is_shared = self.game.start, True
        self._pending: list[GroundAction] = []
        self._enter(tuple(self._facts.bits.values()))
        return self.game.introduction

    def copy(self) -> FastGame:
        """Return a copy of the episode that can go on without changing this one."""
        twin = FastGame(self.game)
        twin._facts, twin._pending = self._facts, list(self._pending)
        twin._is_shared = self._is_shared = True
        twin._state = self._state
        return twin

    @property
    def facts(self) -> Facts:
        """Return the facts of the current state, for reading."""
        if self._pending and self._is_shared:
            self._facts, self._is_shared = self._facts.copy(), False
        for number, arguments in self._pending:
            self.game.actions[number].apply(self._facts, arguments)
        self._pending.clear()
        return self._facts

    @property
    def admissible(self) -> tuple[str, ...]:
        """Return the admissible commands, sorted."""
        return self._state.admissible

    @property
    def won(self) -> bool:
        """Return whether the goal is reached."""
        return self._state.won

    def step(self, command: str) -> str:
        """Act, and return the feedback. An inadmissible command changes nothing."""
        command = command.strip()
        reply = self._state.replies.get(command)
        if reply is None:
            ground = self._state.applicable.get(command)
            if ground is None:
                return NOTHING_HAPPENS
            self._pending.append(ground)
            facts = self.facts
            key = tuple(facts.bits.values())
            reply = self._state.replies[command] = (self.game.feedback(ground, facts), ground, key)
        else:
            self._pending.append(reply[1])
        self._enter(reply[2])
        return reply[0]

    def applicable(self) -> list[tuple[str, Arguments, str]]:
        """Return ``(action, arguments, command)`` of each admissible command, in sorted order of the commands."""
        actions, applicable = self.game.actions, self._state.applicable
        grounds = ((command, applicable[command]) for command in self._state.admissible)
        return [(actions[number].name, arguments, command) for command, (number, arguments) in grounds]

    def _enter(self, key: Key) -> None:
        self._state = self.game.state(key, lambda: self.facts)


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
    queries = grammar.queries
    if changing := grammar.command_queries & {effect.predicate for action in actions for effect in action.effects}:
        raise Unsupported(f"command templates that ask for {', '.join(sorted(changing))}")
    for action in actions:
        required = {x.predicate for x in action.required if x.positive}
        for effect in action.effects:
            name, conditional = effect.predicate, effect.condition is not None
            drifts = conditional or (not effect.positive and name not in required)
            if drifts and (f"not_{name}" in queries or (conditional and name in queries)):
                raise Unsupported(f"grammar conditions on {name!r}")
