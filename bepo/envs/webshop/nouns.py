"""The nouns of a product title, for the type match of the score, found by spaCy's tagger or by rules.

A score depends only on whether the share of common nouns is above 0.2, 0.1 or 0, and there both taggers mostly agree.
``run.json`` names the tagger. spaCy's model is not in the package index, so most machines lack it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Literal

from bepo.core.errors import Missing

Tagger = Literal["spacy", "rules"]
MODEL = "en_core_web_sm"
"""The spaCy model that the original uses."""
_TOKEN = re.compile(r"[^\W_]+(?:[.'’][^\W_]+)*\.?")
_FUNCTION_WORDS = frozenset(
    "a about above after again all also an and any are as at be because been before below between both but by can do "
    "down during each every few for from further had has have how i if in into is it its just least less many may me "
    "more most much my no non nor not now of off on once one only or other our out over own per plus same she should "
    "so some such than that the their them then there these they this those through to too two under until up us very "
    "via was we were what when where which while who whose why will with within without would you your three four "
    "five six seven eight nine ten".split()
)
_ADJECTIVES = frozenset(
    "active adult anti authentic big black blue bright brown casual cheap classic clean clear cold comfortable "
    "compact cool cozy creamy cute daily dark deep deluxe double dry easy elegant extra fashion fast fat fine firm "
    "fit flat floral free fresh full funny gentle genuine gluten golden good gray great green grey happy hard "
    "healthy heavy high hot huge indoor insulated keto large latest lean light lightweight little long loose low "
    "luxury mild mini modern multi natural new nice non old open orange organic outdoor perfect pink plain plush "
    "portable premium pretty pro pure purple quick quiet rapid raw real red regular relaxed retro rich round rustic "
    "safe sexy sharp short silver simple single slim small smart smooth soft solid special spicy square standard "
    "steady strong super sweet tall thick thin tight tiny top true twin ultra unique universal vegan vintage warm "
    "weak wet white wide wild wireless yellow young".split()
)
_SUFFIXES = ("able", "ible", "ful", "less", "ous", "ish", "ic", "ical", "ly", "ed", "est", "proof", "ive")


def choose_tagger(requested: Literal["auto", "spacy", "rules"]) -> Tagger:
    """Return the tagger to use: ``auto`` becomes ``spacy`` if its model can be imported, else ``rules``.

    Raises ``Missing`` if ``spacy`` is requested and its model cannot be imported.
    """
    installed = find_spec("spacy") is not None and find_spec(MODEL) is not None
    if requested == "spacy" and not installed:
        raise Missing(
            f"env.noun_tagger=spacy, but spaCy's model {MODEL} cannot be imported", f"python -m spacy download {MODEL}"
        )
    return "spacy" if installed and requested != "rules" else "rules"


@lru_cache(maxsize=2)
def noun_filter(tagger: Tagger) -> Callable[[str], tuple[str, ...]]:
    """Return a cached function that maps a title to its nouns in lower case."""
    return lru_cache(maxsize=1 << 17)(_spacy_nouns() if tagger == "spacy" else rule_nouns)


def rule_nouns(title: str) -> tuple[str, ...]:
    """Return the words of a title, in lower case, without function words, numbers and adjectives.

    A list and typical endings identify adjectives.
    """
    words = (word.lower() for word in _TOKEN.findall(title))
    return tuple(word for word in words if _looks_like_a_noun(word))


def _looks_like_a_noun(word: str) -> bool:
    if word in _FUNCTION_WORDS or word in _ADJECTIVES or not any(c.isalpha() for c in word):
        return False
    return len(word) > 1 and not (len(word) > 4 and word.endswith(_SUFFIXES))


def _spacy_nouns() -> Callable[[str], tuple[str, ...]]:
    import spacy  # pyright: ignore[reportMissingImports] (an extra)

    model = spacy.load(MODEL)
    return lambda title: tuple(t.text.lower() for t in model(title) if t.pos_ in ("NOUN", "PROPN"))
