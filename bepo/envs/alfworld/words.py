"""Every word that games show or understand, for built-in tokenizers."""

from __future__ import annotations

import re
from functools import cache

from bepo.envs.alfworld import augment, compact, wheel
from bepo.envs.alfworld.generate import TASK_TYPES
from bepo.envs.alfworld.grammar import Grammar

_PIECE = re.compile(r"[A-Za-z]?[a-z]+|[0-9]+|\S")
_SYMBOL = re.compile(r"\{[^}]*\}|#[^#]*#|[\[\]]")
_NUMBERS = 64  # of things of one kind, at most


@cache
def vocabulary() -> tuple[str, ...]:
    """Words, numbers and symbols in a fixed order; the verb and prepositions of older grammars (put in/on) too."""
    tables = wheel.constants()
    texts = [_SYMBOL.sub(" ", text) for text in Grammar(wheel.grammar()).texts()]
    texts += [t for kind in TASK_TYPES for t in wheel.goals()[kind]["templates"]]
    texts += ["put in/on", augment.WORDS, compact.OTHERS]
    words = {w for text in texts for w in _PIECE.findall(_SYMBOL.sub(" ", text.split("Available commands")[0]))}
    kinds = {
        *tables["OBJECTS"],
        *tables["VAL_RECEPTACLE_OBJECTS"],
        *(k for s in tables["VAL_RECEPTACLE_OBJECTS"].values() for k in s),
    }
    words |= {k.lower() for k in kinds}
    return (*sorted(words), *map(str, range(_NUMBERS)))
