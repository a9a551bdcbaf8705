"""The shop as a state machine: a session's page, the buttons on it, and the effect of each action.

It equals the original's text environment on every recorded step. Deviations:
1. As the first word of a search, ``<r>``, ``<c>``, ``<q>`` and ``<a>`` are plain words unless ``keyword_commands`` is
   set. Then ``<r>`` is seeded, and ``<a>`` lists the products with an attribute (it crashes the original).
2. The original recognises a page by its address, and the address contains the query. A search for "search_results" or
   "item_page" therefore changes the meaning of "< prev" there, but not here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from bepo.envs.webshop.catalogue import Catalogue, Product
from bepo.envs.webshop.goals import Goal
from bepo.envs.webshop.reward import NounFilter, purchase_score
from bepo.envs.webshop.search import HITS

PER_PAGE = 10
"""The number of products on a results page."""
SUB_PAGES = ("description", "features", "reviews", "attributes")
"""The sub-pages of an item page; attributes only if ``show_attributes`` is set."""
BACK, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
"""The buttons with a fixed meaning."""
_ACTION = re.compile(r"(.+)\[(.+)\]")


@dataclass
class Shop:
    """The parts that all sessions share."""

    catalogue: Catalogue
    nouns: NounFilter  # for the type match of the score
    show_attributes: bool = False
    keyword_commands: bool = False
    seed: int = 0  # of the search <r>

    def __post_init__(self) -> None:
        self._cached_search = lru_cache(maxsize=50_000)(self._search)
        self._cached_item_buttons = lru_cache(maxsize=50_000)(self._item_buttons)

    def product(self, asin: str) -> Product:
        """Return the product with an asin."""
        return self.catalogue.product(self.catalogue.number[asin])

    def search(self, query: str, draw: int = 0) -> tuple[Product, ...]:
        """Return the products that a query finds, best first; ``draw`` is the number of the random draw of <r>."""
        return self._cached_search(query, draw)

    def item_buttons(self, asin: str) -> tuple[str, ...]:
        """Return the buttons of an item page; equal values of two options are one button."""
        return self._cached_item_buttons(asin)

    def _search(self, query: str, draw: int) -> tuple[Product, ...]:
        catalogue = self.catalogue
        word, _, rest = query.partition(" ")
        if self.keyword_commands and word == "<r>":
            everything = range(len(catalogue))
            hits = Random(f"{self.seed} {draw}").sample(everything, min(HITS, len(everything)))
        elif self.keyword_commands and word in _KEYWORD_FILTERS:
            is_listed = _KEYWORD_FILTERS[word]
            everything = (catalogue.product(n) for n in range(len(catalogue)))
            return tuple(p for p in everything if is_listed(p, rest.strip()))
        else:
            hits = catalogue.index.search(query).tolist()
        return tuple(catalogue.product(n) for n in hits)

    def _item_buttons(self, asin: str) -> tuple[str, ...]:
        sub_pages = SUB_PAGES if self.show_attributes else SUB_PAGES[:-1]
        values = (v for values in self.product(asin).options.values() for v in values)
        return tuple(dict.fromkeys((BACK, PREVIOUS, *sub_pages, BUY, *values)))


_KEYWORD_FILTERS = {
    "<c>": lambda product, rest: product.category == rest.split(" ")[0],
    "<q>": lambda product, rest: product.query == rest,
    "<a>": lambda product, rest: rest in product.attributes,
}


@dataclass
class Session:
    """One shopper's state, at first on the search page."""

    shop: Shop
    goal: Goal
    prices: Sequence[float]  # by product number
    page: str = "search"  # "search", "results", "item", "done" or a sub-page
    query: str = ""
    page_number: int = 1  # of the results page, from 1
    asin: str = ""  # the product of the item page
    options: dict[str, str] = field(default_factory=dict)  # chosen options: name -> value
    visited: frozenset[str] = frozenset()  # asins clicked since the last visit to the search page
    searches: int = 0  # number of searches so far

    @property
    def hits(self) -> tuple[Product, ...]:
        """Return the products that the query finds."""
        return self.shop.search(self.query, self.searches if self.query.startswith("<r>") else 0)

    @property
    def listed(self) -> tuple[Product, ...]:
        """Return the products on the current results page."""
        return self.hits[(self.page_number - 1) * PER_PAGE : self.page_number * PER_PAGE]

    @property
    def product(self) -> Product:
        """Return the product of the item page."""
        return self.shop.product(self.asin)

    @property
    def clickables(self) -> tuple[str, ...]:
        """Return the buttons of the current page, in lower case."""
        if self.page == "search":
            return ("search",)
        if self.page == "results":
            buttons = (BACK, PREVIOUS, NEXT) if self.page_number > 1 else (BACK, NEXT)
            return (*buttons, *(p.asin.lower() for p in self.listed))
        if self.page == "item":
            return self.shop.item_buttons(self.asin)
        return () if self.page == "done" else (BACK, PREVIOUS)

    def act(self, action: str) -> float | None:
        """Act, and return the task score if the action buys the product, else None.

        Actions are ``search[query]`` and ``click[button]``; all others change nothing.
        """
        match = _ACTION.match(action)
        if match is None or self.page == "done":
            return None
        kind, argument = match.group(1), match.group(2).lower()
        if kind == "search":
            self._open_results(argument, 1)
            self.searches += 1
        elif kind == "click" and argument in self.clickables and argument != "search":
            return self._click(argument)
        return None

    def score_of(self, product: Product, options: dict[str, str]) -> float:
        """Return the task score of buying a product with these options, in [0, 1]."""
        price = self.prices[self.shop.catalogue.number[product.asin]]
        goal_product = self.shop.product(self.goal.asin)
        return purchase_score(product, options.values(), price, self.goal, goal_product, self.shop.nouns)

    def _click(self, button: str) -> float | None:
        if button == BUY:
            self.page = "done"
            return self.score_of(self.product, self.options)
        if button == BACK:
            self.page, self.query, self.page_number, self.asin = "search", "", 1, ""
            self.options, self.visited = {}, frozenset()
        elif button in (NEXT, PREVIOUS) and self.page == "results":
            self._open_results(self.query, self.page_number + (1 if button == NEXT else -1))
        elif button == PREVIOUS and self.page == "item":
            self._open_results(self.query, self.page_number)
        elif button == PREVIOUS:
            self.page = "item"
        elif button in SUB_PAGES:
            self.page = button
        elif self.page == "results":
            self.page, self.asin = "item", button.upper()
            self.visited |= {self.asin}
        else:
            self.options = self.options | {self._option_of(button): button}
        return None

    def _option_of(self, value: str) -> str:
        """Return the name of the option with a value; if two options have it, the last one."""
        return next(name for name, values in reversed(self.product.options.items()) if value in values)

    def _open_results(self, query: str, page_number: int) -> None:
        self.page, self.query, self.page_number = "results", query, page_number
        self.asin, self.options = "", {}
