"""Lucene's English analyzer: splits a text into words, removes possessives and stop words, and stems (Porter)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import regex

# The words of UAX 29 as Lucene's StandardTokenizer finds them; each ideograph and each hiragana is a word of its own.
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


# --- Porter's stemmer (Porter, 1980, with his later rules for -bli and -logi, as in Lucene) ---------------------------

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def stem(word: str) -> str:
    """Return the stem of a lower-case word; a word of one or two letters is its own stem."""
    if len(word) <= 2:
        return word
    word = _step_1(word)
    for rules in (_STEP_2, _STEP_3):
        suffix = _longest(word, rules)
        if suffix and _measure(word[: -len(suffix)]) > 0:
            word = word[: -len(suffix)] + rules[suffix]
    suffix = _longest(word, _STEP_4)
    if suffix and _measure(base := word[: -len(suffix)]) > 1 and (suffix != "ion" or base[-1:] in ("s", "t")):
        word = base
    return _step_5(word)


def _longest(word: str, suffixes: Iterable[str]) -> str | None:
    """Return the longest of the suffixes that a word ends in."""
    return max((s for s in suffixes if word.endswith(s)), key=len, default=None)


def _step_1(word: str) -> str:
    """Remove plural endings, -ed and -ing, and replace a final y."""
    if word.endswith("sses") or word.endswith("ies"):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        suffix = next((s for s in ("ed", "ing") if word.endswith(s)), None)
        if suffix and "v" in _pattern(word[: -len(suffix)]):
            word = _repair(word[: -len(suffix)])
    if word.endswith("y") and "v" in _pattern(word[:-1]):
        word = word[:-1] + "i"
    return word


def _repair(word: str) -> str:
    """Restore a final e, or remove a doubled consonant, after -ed or -ing has been removed."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _double_consonant(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _short_end(word) else word


def _step_5(word: str) -> str:
    """Remove a final e and a doubled final l from words that are long enough."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short_end(word[:-1])):
            word = word[:-1]
    if word.endswith("l") and _double_consonant(word) and _measure(word) > 1:
        word = word[:-1]
    return word


def _pattern(word: str) -> str:
    """Return ``c`` for each consonant and ``v`` for each vowel; y is a vowel after a consonant."""
    out = []
    for i, letter in enumerate(word):
        vowel = letter in "aeiou" or (letter == "y" and i > 0 and out[-1] == "c")
        out.append("v" if vowel else "c")
    return "".join(out)


def _measure(word: str) -> int:
    """Return Porter's m: how often a vowel is followed by a consonant."""
    return _pattern(word).count("vc")


def _double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _pattern(word)[-1] == "c"


def _short_end(word: str) -> bool:
    """Return whether a word ends in consonant, vowel, consonant, where the last one is not w, x or y."""
    return _pattern(word)[-3:] == "cvc" and word[-1] not in "wxy"
