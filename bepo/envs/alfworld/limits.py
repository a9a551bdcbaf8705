"""Limits of size for games, which anybody may write. ALFRED's games stay far below them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

MOST_RULES = 10_000
"""Grammar rules that one text may use."""
MOST_CHARACTERS = 100_000
"""Characters of one text, of a template, and of a grammar."""
MOST_OF_CONDITION = 10_000
"""Characters of one condition of a rule."""
MOST_OF_PDDL = 10_000_000
"""Characters of a domain, and of a problem."""
MOST_FACTS = 1_000_000
"""Facts that the conditions of one text, or one condition of an action, may look at."""
MOST_ENTITIES = 10_000
"""Objects of a game, and instances of one action in a state; a tenth of the facts at the beginning."""

C = TypeVar("C", bound=Collection | Sequence)


class Endless(Exception):
    """A game exceeds a limit, so that it could take hours. Its episode is broken."""


class Counter:
    """Counts down what one text or one condition may use."""

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._left = most

    def reset(self) -> None:
        """Begin again."""
        self._left = self._most

    def take(self, n: int = 1) -> None:
        """Use some. Raises ``Endless`` if nothing is left."""
        self._left -= n
        if self._left < 0:
            raise Endless(f"more than {self._most} {self._what}")


def counted(most: int = MOST_FACTS) -> Callable[[C], C]:
    """Return a function that returns its argument and counts its elements. It raises ``Endless`` after ``most``."""
    counter = Counter(most, "facts for one condition")

    def take(values: C) -> C:
        counter.take(len(values))
        return values

    return take


def check_size(text: str, what: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text. Raises ``Endless`` if it has too many characters."""
    if len(text) > most:
        raise Endless(f"{what} of more than {most} characters")
    return text
