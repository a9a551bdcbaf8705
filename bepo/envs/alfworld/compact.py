"""Short observations for tiny models: of the visible objects, only those that the task names are listed."""

from __future__ import annotations

import re

ROOM = "You are in the middle of a room."
"""The whole of the first observation of an episode. The task is not repeated in it, because every prompt has it."""
OTHERS = "other things"
"""Stands for objects when none of them is named by the task."""
_LIST = re.compile(r"you see (an? [^.]*)\.")
_OBJECT = re.compile(r"an? ([a-z]+) \d+")


def shorten(feedback: str, instruction: str) -> str:
    """Return ``feedback`` with its list of objects cut down to those whose kind is a word of ``instruction``."""
    named = set(instruction.lower().split())

    def shorten_list(match: re.Match[str]) -> str:
        relevant = [item[0] for item in _OBJECT.finditer(match[1]) if item[1] in named]
        return f"you see {', '.join(relevant) or OTHERS}."

    return _LIST.sub(shorten_list, feedback)
