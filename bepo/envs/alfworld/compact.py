"""What a tiny model is shown: few words, and of the things in sight only those that the task names."""

from __future__ import annotations

import re

ROOM = "You are in the middle of a room."  # all of an episode's first observation: every prompt has the task
OTHERS = "other things"
_LIST = re.compile(r"you see (an? [^.]*)\.")
_THING = re.compile(r"an? ([a-z]+) \d+")


def shorten(feedback: str, instruction: str) -> str:
    """``feedback`` with its list of things cut down to the kinds whose names are words of ``instruction``."""
    named = set(instruction.lower().split())

    def cut(seen: re.Match[str]) -> str:
        kept = [thing[0] for thing in _THING.finditer(seen[1]) if thing[1] in named]
        return f"you see {', '.join(kept) or OTHERS}."

    return _LIST.sub(cut, feedback)
