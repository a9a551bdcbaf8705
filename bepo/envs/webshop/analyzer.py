"""Lucene's English analyzer: splits a text into words, removes possessives and stop words, and stems (Porter)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer

# The words of UAX 29 as Lucene's StandardTokenizer finds them; each ideograph and each hiragana is a separate word.
_EXTEND = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*"
_LETTER = rf"[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]{_EXTEND}"
_DIGIT = rf"\p{{WB=Numeric}}{_EXTEND}"
_INSIDE = rf"(?:{_LETTER}|{_DIGIT}|\p{{WB=ExtendNumLet}}{_EXTEND})"
_MID = (
    rf"(?:(?<={_LETTER})[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}](?={_LETTER})"
    rf"|(?<={_DIGIT})[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}](?={_DIGIT}))"
)
_WORD = regex.compile(
    rf"(?:{_INSIDE})+(?:{_MID}(?:{_INSIDE})+)*|[\p{{Han}}\p{{Hiragana}}]|\p{{WB=Katakana}}+", regex.VERSION1
)
_ASCII_WORD = regex.compile(r"\w+(?:(?:(?<=[a-z])[.:'](?=[a-z])|(?<=[0-9])[.,;'](?=[0-9]))\w+)*", regex.ASCII)
_SUFFIXES = ("'s", "’s", "＇s", "'S", "’S", "＇S")
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
"""The words that are not indexed."""


def analyze(text: str) -> list[str]:
    """Return the index terms of a text, in order."""
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else _WORD.findall(text)
    terms = (_term(word) for word in words)
    return [term for term in terms if term and term.strip("_")]


@lru_cache(maxsize=1 << 20)
def _term(word: str) -> str | None:
    """Return the term of one word, or None for a stop word."""
    if word.endswith(_SUFFIXES):
        word = word[:-2]
    word = word.lower()
    return None if word in STOP_WORDS else stem(word)


def stem(word: str) -> str:
    """Return the stem of a lower-case word (Porter, 1980, with his later rules for -bli and -logi, as in Lucene).

    A word of one or two letters is its own stem.
    """
    return word if len(word) <= 2 else _porter().stem(word, to_lowercase=False)


@cache
def _porter() -> PorterStemmer:
    from nltk.stem.porter import PorterStemmer  # a second of imports

    return PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS)
