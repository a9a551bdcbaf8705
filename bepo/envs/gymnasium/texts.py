"""Words for Gymnasium's own environments, and renderings without the escape codes of a terminal."""

from __future__ import annotations

import re
from typing import NamedTuple

_COLOURED = re.compile(r"\x1b\[([0-9;]+)m([^\x1b]*)\x1b\[0m")  # the innermost
_LAST_ACTION = re.compile(r"^ *\((\w+)\)$", re.MULTILINE)  # part of the history, not of the state
_VARIANT = re.compile(r"(8x8|Slippery)?(-v\d+)?$")  # behind the name of a family in an id
_MARKS = {"41": "[]", "43": "[]", "42": "{}", "34;1": "<>", "35": "()"}
"""The marks that replace the colour of a symbol, by colour code; other colours get the first one's."""


class Family(NamedTuple):
    """Words and rules for one of Gymnasium's environments, in all its versions."""

    actions: tuple[str, ...] = ()
    rules: str = ""
    ends_in_success: bool = False  # whether every end is a success, whatever the last reward


_FAMILIES = {
    "FrozenLake": Family(
        ("left", "down", "right", "up"),
        "Walk over the frozen lake from S to G without falling into a hole. F is ice, H a hole; [ ] is where you are.",
    ),
    "Taxi": Family(
        ("south", "north", "east", "west", "pickup", "dropoff"),
        "Fetch the passenger and drop them off at their destination. [ ] is the empty taxi, { } the taxi with the "
        "passenger, < > the passenger who waits, ( ) the destination. | is a wall, : can be passed.",
    ),
    "CliffWalking": Family(
        ("up", "right", "down", "left"),
        "Walk from the lower left to the target T; the cliff C takes you back to the beginning. x is where you are.",
        ends_in_success=True,
    ),
    "Blackjack": Family(
        ("stick", "hit"),
        "Get a higher sum than the dealer, but not above 21. You see your sum, the dealer's card, and whether you have "
        "an ace that counts 11.",
    ),
}


def family_of(env_id: str) -> Family:
    """Return the words and rules for an environment by its ID; an empty ``Family`` if it is not Gymnasium's own."""
    return _FAMILIES.get(_VARIANT.sub("", env_id.rpartition(":")[2]), Family())


def plain(rendering: str) -> str:
    """Return a rendering (mode ``ansi``) with marks in place of colours, and without the last action."""
    text, found = rendering, 1
    while found:
        text, found = _COLOURED.subn(lambda match: match[2].join(_MARKS.get(match[1], "[]")), text)
    return "\n".join(line.rstrip() for line in _LAST_ACTION.sub("", text).splitlines() if line.strip())
