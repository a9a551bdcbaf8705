"""Words for Gymnasium's own environments, and renderings without the escape codes of a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

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
    lasts: bool = False  # whether an episode succeeds if it reaches the time limit, and only then
    numbers: tuple[str, ...] = ()  # the names of an observation's numbers


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

_FAMILIES |= {
    "CartPole": Family(
        ("left", "right"),
        "Push the cart left or right so that the pole on it does not fall and the cart stays near the middle.",
        lasts=True,
        numbers=("cart position", "cart velocity", "pole angle", "pole angular velocity"),
    ),
    "MountainCar": Family(
        ("left", "coast", "right"),
        "Drive the car out of the valley to the flag on the right, at position 0.5. Its engine is too weak to climb "
        "without momentum.",
        ends_in_success=True,
        numbers=("position", "velocity"),
    ),
    "Acrobot": Family(
        ("negative", "none", "positive"),
        "Apply a negative torque, none or a positive one to the joint between two hanging links, until the free end "
        "swings above the bar.",
        ends_in_success=True,
        numbers=("cos of angle 1", "sin of angle 1", "cos of angle 2", "sin of angle 2", "velocity 1", "velocity 2"),
    ),
}  # their observations are numbers
_MOST_NUMBERS = 64  # of an observation that is described in words


def family_of(env_id: str) -> Family:
    """Return the words and rules for an environment by its ID; an empty ``Family`` if it is not Gymnasium's own."""
    return _FAMILIES.get(_VARIANT.sub("", env_id.rpartition(":")[2]), Family())


def plain(rendering: str) -> str:
    """Return a rendering (mode ``ansi``) with marks in place of colours, and without the last action."""
    text, n = rendering, 1
    while n:
        text, n = _COLOURED.subn(lambda match: match[2].join(_MARKS.get(match[1], "[]")), text)
    return "\n".join(line.rstrip() for line in _LAST_ACTION.sub("", text).splitlines() if line.strip())


def described(observation: object, names: Sequence[str] = ()) -> str:
    """Return an observation of numbers as text, such as ``position -0.524, velocity 0``; ``names`` are theirs.

    A tuple or dictionary is described part by part. Raises ``ValueError`` for more than 64 numbers, or no numbers.
    """
    if isinstance(observation, Mapping):
        return "\n".join(f"{name}: {described(part)}" for name, part in observation.items())
    if isinstance(observation, tuple):
        return " ".join(map(described, observation))
    if isinstance(observation, str):
        return observation
    values = np.asarray(observation)
    if values.dtype.kind not in "biuf" or values.size > _MOST_NUMBERS:
        raise ValueError(f"{values.dtype} of shape {values.shape}; at most {_MOST_NUMBERS} numbers")
    words = [f"{number:.3g}" if values.dtype.kind == "f" else str(int(number)) for number in values.ravel()]
    if len(words) != len(names):
        return " ".join(words)
    return ", ".join(f"{name} {word}" for name, word in zip(names, words))
