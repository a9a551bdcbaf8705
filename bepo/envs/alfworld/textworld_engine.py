"""The engine ``textworld``: textworld's PDDL environment with the demangler of the alfworld package."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from bepo.core.errors import Missing
from bepo.envs.alfworld.grammar import compile_expression
from bepo.envs.alfworld.limits import MOST_RULES, Counter

INSTALL = "pip install textworld==1.7.0 && pip install --no-deps alfworld==0.4.2"  # beside any torch


def missing() -> Missing | None:
    """Return that textworld or its planner is not installed; None if both are."""
    if find_spec("textworld") and find_spec("fast_downward"):
        return None
    return Missing("textworld is not installed", INSTALL)


class TextWorldGame:
    """One episode of a game on textworld. Raises ``Missing`` if textworld cannot be imported."""

    def __init__(self, game_file: Mapping[str, Any]) -> None:
        """``game_file`` is the content of a ``game.tw-pddl``. Raises ``ForeignExpression``."""
        try:
            import textworld  # pyright: ignore[reportMissingImports] (an extra)
            from alfworld.agents.utils.misc import Demangler
            from textworld.envs.pddl import PddlEnv  # pyright: ignore[reportMissingImports] (an extra)
        except ImportError as error:
            raise Missing(f"textworld is not installed ({error})", INSTALL) from error
        _refuse_foreign_expressions()
        _limit_rules()
        with _unchanged_arguments():
            self._env = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True, facts=True))
            self._env.load(dict(game_file))
            infos = self._env._entity_infos
            demangler = Demangler(game_infos=infos)
            for info in infos.values():
                # textworld declares ``name`` as None, without a type.
                info.name = demangler.demangle_alfred_name(info.id)  # pyright: ignore[reportAttributeAccessIssue]

    def reset(self) -> str:
        """Start the episode, and return the introduction."""
        with _unchanged_arguments():
            self._state = self._env.reset()
        return self._state["feedback"]

    def step(self, command: str) -> str:
        """Act, and return the feedback."""
        self._state, _, _ = self._env.step(command)
        return self._state["feedback"]

    @property
    def admissible(self) -> tuple[str, ...]:
        """Return the admissible commands, sorted."""
        return tuple(self._state["admissible_commands"])

    @property
    def won(self) -> bool:
        """Return whether the goal is reached."""
        return bool(self._state["won"])


@cache
def _refuse_foreign_expressions() -> None:
    """Make textworld raise ``ForeignExpression`` for expressions that the fast engine refuses.

    textworld passes the expressions of a grammar to Python's ``eval``, so a game file could run any code. The check is
    in textworld's own class of expressions, because its parser may find expressions that ours does not.
    """
    from textworld.envs.pddl import textgen  # pyright: ignore[reportMissingImports] (an extra)

    class Checked(textgen.EvalSymbol):
        def __init__(self, expression: str, context: dict = {}) -> None:  # noqa: B006 - as in textworld
            compile_expression(expression)
            super().__init__(expression, context)

        def derive(self, context: dict | None = None) -> list:
            compile_expression(self.expression)
            return super().derive(context)

    textgen.EvalSymbol = Checked


@cache
def _limit_rules() -> None:
    """Make textworld raise ``Endless`` for a text that needs too many rules, as the fast engine does."""
    from textworld.envs.pddl import textgen  # pyright: ignore[reportMissingImports] (an extra)

    grammar, used = textgen.ContextSensitiveGrammar, Counter(MOST_RULES, "rules for one text")
    derive, replace = grammar.derive, grammar.replace

    def derive_limited(self: Any, *arguments: Any, **options: Any) -> str:
        used.reset()
        return derive(self, *arguments, **options)

    def replace_limited(self: Any, start: Any) -> Any:
        used.take()
        return replace(self, start)

    grammar.derive, grammar.replace = derive_limited, replace_limited


@contextmanager
def _unchanged_arguments() -> Iterator[None]:
    """Restore ``sys.argv``, which Fast Downward overwrites."""
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments
