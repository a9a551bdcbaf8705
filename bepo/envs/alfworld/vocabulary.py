"""The vocabulary of ALFWorld: every word that observations and commands can contain, for word-level tokenizers."""

from __future__ import annotations

import re
from functools import cache

from bepo.envs.alfworld import augment, compact, package_data
from bepo.envs.alfworld.generate import TASK_TYPES
from bepo.envs.alfworld.grammar import Grammar

_TOKEN = re.compile(r"[A-Za-z]?[a-z]+|[0-9]+|\S")
_SYMBOL = re.compile(r"\{[^}]*\}|#[^#]*#|[\[\]]")
_NUMBERS = 64  # no scene has more objects of one kind


@cache
def vocabulary() -> tuple[str, ...]:
    """Return words, numbers and punctuation in a fixed order, including words of older grammars (put in/on)."""
    tables = package_data.constants()
    texts = [_SYMBOL.sub(" ", text) for text in Grammar(package_data.grammar()).texts()]
    texts += [template for kind in TASK_TYPES for template in package_data.goals()[kind]["templates"]]
    texts += ["put in/on", augment.ALL_WORDS, compact.OTHERS]
    # The text after "Available commands" is the feedback to ``help``, a command that is never listed.
    texts = [_SYMBOL.sub(" ", text.split("Available commands")[0]) for text in texts]
    words = {word for text in texts for word in _TOKEN.findall(text)}
    contents = tables["VAL_RECEPTACLE_OBJECTS"]
    kinds = {*tables["OBJECTS"], *contents, *(kind for objects in contents.values() for kind in objects)}
    words |= {kind.lower() for kind in kinds}
    return (*sorted(words), *map(str, range(_NUMBERS)))
