"""Short observations for tiny models: they list only the visible objects that the task names."""

from __future__ import annotations

import re

ROOM = "You are in the middle of a room."
"""The complete first observation of an episode. It does not repeat the task, because every prompt has it."""
OTHERS = "other things"
"""Stands for the objects if the task names none of them."""
_LIST = re.compile(r"you see (an? [^.]*)\.")
_OBJECT = re.compile(r"an? ([a-z]+) \d+")


def shorten(feedback: str, instruction: str) -> str:
    """Return ``feedback``, listing only the objects whose type is a word of ``instruction``."""
    named = set(instruction.lower().split())

    def shorten_list(match: re.Match[str]) -> str:
        relevant = [item[0] for item in _OBJECT.finditer(match[1]) if item[1] in named]
        return f"you see {', '.join(relevant) or OTHERS}."

    return _LIST.sub(shorten_list, feedback)
