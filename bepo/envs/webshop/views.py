"""Views: they present a session to a policy, and turn the policy's texts into actions of the shop.

``PageView`` presents the original's pages. ``CompactView`` is for tiny models; it shows short lines with few different
words:
* Titles, texts and option values keep only the words that they share with the instruction, in the instruction's form.
  An item page shows such words of the product's description, features and attributes too.
* Prices are rounded up to the next ten. Results are numbered and clicked by number.
* Actions have no brackets ("click 3", "search wrap dress").
* In ``text_rich`` mode an opened result is shown as its number and "done".

The possible actions and their effects are the same in both views.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from bepo.envs.webshop import text
from bepo.envs.webshop.analyzer import STOP_WORDS, stem
from bepo.envs.webshop.catalogue import Catalogue, Product
from bepo.envs.webshop.pages import BACK, BUY, NEXT, PREVIOUS, SUB_PAGES, Session

ANY_QUERY = "<your query>"
"""The placeholder for a query in the list of actions if no searches are suggested."""
MAX_WORDS = 8000
"""The largest number of words that the catalogue adds to the compact view's vocabulary."""
_WORD = re.compile(r"[a-z]{2,}|[0-9]+")
_TOKEN = re.compile(r"[a-z]+|[0-9]+|\S")  # as a word-level tokenizer splits lower-case text
_PRICE = re.compile(r", and price lower than [\d.]+ dollars$")
_COMPACT_ACTION = re.compile(r"(search|click)\s*\[?\s*(.*?)\s*\]?$", re.DOTALL)
_REQUEST_WORDS = frozenset("i me my am find looking need want show please buy get would like with search".split())
_QUERY_WORDS = 5


class PageView:
    """Presents the original's pages, with parts in quotes as in verl-agent. Actions: ``search[]`` and ``click[]``."""

    def __init__(self, mode: text.Mode, suggestions: int) -> None:
        """``suggestions`` is the number of searches to list as actions."""
        self.mode: text.Mode = mode
        self.suggestions = suggestions

    def instruction(self, session: Session) -> str:
        """Return the instruction as the policy reads it."""
        return session.goal.instruction

    def page(self, session: Session, key: str) -> str:
        """Return the current page as the policy reads it; ``key`` is the page's text (``text.page``)."""
        if self.mode == "text_rich":
            return key
        return text.SEPARATOR.join(f"'{part}'" for part in key.split(text.SEPARATOR))

    def admissible(self, session: Session) -> tuple[str, ...]:
        """Return the listed actions of the current page."""
        if session.page == "search":
            return tuple(self.action(session, "search", query) for query in self.queries(session))
        return tuple(self.action(session, "click", button) for button in session.clickables)

    def queries(self, session: Session) -> tuple[str, ...]:
        """Return the suggested searches, or ``ANY_QUERY`` if none are suggested."""
        return suggested_queries(session.goal.instruction, self.suggestions) if self.suggestions else (ANY_QUERY,)

    def parse_action(self, response: str) -> str | None:
        """Return the response as an action; the shop ignores unknown actions (verl-agent)."""
        return response.strip().lower() or None

    def resolve(self, session: Session, action: str) -> str:
        """Return an action of this view as an action of the shop."""
        return action

    def action(self, session: Session, kind: Literal["search", "click"], argument: str) -> str:
        """Return an action of the shop as an action of this view."""
        return f"{kind}[{argument}]"


class CompactView(PageView):
    """Presents short lines for tiny models (see the module's docstring)."""

    def instruction(self, session: Session) -> str:
        """Return the instruction in lower case."""
        return session.goal.instruction.lower()

    def page(self, session: Session, key: str) -> str:
        """Return the current page as one short line."""
        if session.page == "search":
            return "search"
        instruction = session.goal.instruction
        asked = _asked(instruction)
        if session.page == "results":
            lines = (
                f"{i} {self._mark(p.asin in session.visited) or _line(p.title, p, asked)}".rstrip()
                for i, p in enumerate(session.listed, start=1)
            )
            return f"results {session.page_number}: {'; '.join(lines)}"
        if session.page == "item":
            product = session.product
            options = (
                f"{name} {self._mark(name in session.options)}{' '.join(_asked_values(values, instruction))}".rstrip()
                for name, values in product.options.items()
            )
            texts = (product.title, *product.bullets, product.description, *product.attributes)
            return "; ".join((f"item: {_line(' '.join(texts), product, asked)}", *options))
        if session.page in SUB_PAGES:
            return f"{session.page}: {' '.join(shared_words(_sub_page_text(session), asked))}"
        return "done"

    def parse_action(self, response: str) -> str | None:
        """Return an action such as ``click 3`` or ``click[3]``; None if the response is not a search or a click."""
        match = _COMPACT_ACTION.match(response.strip().lower())
        return f"{match.group(1)} {match.group(2)}" if match and match.group(2) else None

    def resolve(self, session: Session, action: str) -> str:
        """Return an action of the shop: numbers become products, and a word-level tokenizer's blanks are removed."""
        kind, _, argument = action.partition(" ")
        if kind == "search":
            return f"search[{argument}]"
        if session.page == "results" and argument.isdecimal() and 1 <= int(argument) <= len(session.listed):
            return f"click[{session.listed[int(argument) - 1].asin}]"
        squeezed = "".join(argument.split())
        return next((f"click[{b}]" for b in session.clickables if "".join(b.split()) == squeezed), action)

    def action(self, session: Session, kind: Literal["search", "click"], argument: str) -> str:
        """Return an action without brackets; a product on a results page is clicked by its number."""
        if session.page == "results" and kind == "click" and argument not in (BACK, PREVIOUS, NEXT):
            asins = [p.asin.lower() for p in session.listed]
            return f"click {asins.index(argument) + 1}"
        return f"{kind} {argument}"

    def _mark(self, clicked: bool) -> str:
        """Return the mark of ``text_rich`` for products that were opened and for options that have a chosen value."""
        return "done " if clicked and self.mode == "text_rich" else ""


@lru_cache(maxsize=50_000)
def suggested_queries(instruction: str, n: int) -> tuple[str, ...]:
    """Return up to ``n`` searches made of an instruction: windows of five content words, evenly spaced."""
    words = [w for w in _WORD.findall(_PRICE.sub("", instruction.lower())) if w not in STOP_WORDS | _REQUEST_WORDS]
    last = max(len(words) - _QUERY_WORDS, 0)
    starts = [round(i * last / max(n - 1, 1)) for i in range(n)]
    queries = dict.fromkeys(" ".join(words[s : s + _QUERY_WORDS]) for s in starts)
    return tuple(query for query in queries if query) or (instruction.lower(),)


def _line(content: str, product: Product, asked: Mapping[str, str]) -> str:
    """Return the words that a text shares with the instruction, and the product's price rounded up to the next ten."""
    price = 100.0 if not product.pricing else product.pricing[-1]
    return " ".join((*shared_words(content, asked), str(math.ceil(price / 10) * 10)))


@lru_cache(maxsize=50_000)
def _asked(instruction: str) -> Mapping[str, str]:
    """Return an instruction's words, without stop words, by stem; if two words share a stem, the last one."""
    return {stem(word): word for word in _words(instruction) if word not in STOP_WORDS}


def _asked_values(values: Iterable[str], instruction: str) -> list[str]:
    """Return the option values whose words are all in the instruction and not stop words."""
    words = set(_words(instruction)) - STOP_WORDS
    return [value for value in values if words.issuperset(_words(value))]


def shared_words(content: str, asked: Mapping[str, str]) -> list[str]:
    """Return the words of the instruction that the text has in any form ("shirts" for "shirt"), in the text's order."""
    return list(dict.fromkeys(asked[word] for word in _stems(content) if word in asked))


@lru_cache(maxsize=50_000)
def _words(content: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(content.lower()))


@lru_cache(maxsize=50_000)
def _stems(content: str) -> tuple[str, ...]:
    return tuple(map(stem, _words(content)))


def _sub_page_text(session: Session) -> str:
    product = session.product
    return {
        "description": product.description,
        "features": " ".join(product.bullets),
        "attributes": " ".join(product.attributes),
    }.get(session.page, "")


def vocabulary(catalogue: Catalogue, instructions: Iterable[str]) -> tuple[str, ...]:
    """Return every token that the compact view can contain for these instructions, in a fixed order.

    It includes only the ``MAX_WORDS`` most frequent tokens of the catalogue.
    """
    fixed = f"search click results item done {' '.join(SUB_PAGES)} {BACK} {PREVIOUS} {NEXT} {BUY} : ; , . and price "
    fixed += "lower than dollars 00 " + " ".join(str(n) for n in [*range(1, 16), *range(10, 1010, 10)])
    counts: Counter[str] = Counter()
    for instruction in instructions:
        counts.update(_TOKEN.findall(instruction.lower()))
    for number in range(len(catalogue)):
        for name, values in catalogue.product(number).options.items():
            counts.update(_TOKEN.findall(" ".join((name, *values))))
    frequent = sorted(counts, key=lambda token: (-counts[token], token))[:MAX_WORDS]
    return tuple(dict.fromkeys([*_TOKEN.findall(fixed), *frequent]))
