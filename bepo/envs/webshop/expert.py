"""A privileged expert: it knows the score of every purchase, and takes a short way to a perfect one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Literal

from bepo.envs.webshop.catalogue import Product
from bepo.envs.webshop.pages import BACK, BUY, NEXT, PER_PAGE, PREVIOUS, Session


class Expert:
    """The expert of one session.

    A *plan* for a product is a choice of options with which buying it scores 1.
    """

    def __init__(self, session: Session, queries: Sequence[str]) -> None:
        """``queries`` are the searches to choose from; if none finds a plan, the goal product's title is searched."""
        self.session = session
        self._queries = queries
        self._plans: dict[str, dict[str, str] | None] = {}  # asin -> plan; None: buying it cannot score 1
        self._query: str | None = None

    def action(self) -> tuple[Literal["search", "click"], str] | None:
        """Return ``(kind, argument)`` of the next action, or None once the session is over."""
        session = self.session
        if session.page == "done":
            return None
        if session.page == "search":
            return "search", self._best_query()
        if session.page == "results":
            return "click", self._button_on_results()
        if session.page != "item":
            return "click", PREVIOUS
        plan = self._plan(session.product)
        if plan is None:
            return "click", PREVIOUS
        to_choose = (value for name, value in plan.items() if session.options.get(name) != value)
        return "click", next(to_choose, BUY)

    def ahead(self) -> ExpertWalk:
        """Return a copy of the expert on a copy of its session, for looking ahead."""
        twin = copy(self)
        twin.session = copy(self.session)
        return ExpertWalk(twin)

    def _button_on_results(self) -> str:
        """Return the button towards the first product with a plan, or back if no hit has a plan."""
        session = self.session
        best = self._first_with_plan(session.hits[(session.page_number - 1) * PER_PAGE :])
        if best is None:
            return PREVIOUS if self._first_with_plan(session.hits) is not None else BACK
        return NEXT if best >= PER_PAGE else session.listed[best].asin.lower()

    def _best_query(self) -> str:
        """Return the query whose first product with a plan is on the earliest results page."""
        if self._query is None:
            shop = self.session.shop
            places = [(self._first_with_plan(shop.search(query)), query) for query in self._queries]
            pages = [(place // PER_PAGE, i, query) for i, (place, query) in enumerate(places) if place is not None]
            self._query = min(pages)[2] if pages else shop.product(self.session.goal.asin).title.lower()
        return self._query

    def _first_with_plan(self, products: Sequence[Product]) -> int | None:
        """Return the index of the first product with a plan."""
        return next((i for i, product in enumerate(products) if self._plan(product) is not None), None)

    def _plan(self, product: Product) -> dict[str, str] | None:
        if product.asin not in self._plans:
            self._plans[product.asin] = self._make_plan(product)
        return self._plans[product.asin]

    def _make_plan(self, product: Product) -> dict[str, str] | None:
        """Choose the goal's own option values; return them if the product has them all and then scores 1, else None."""
        plan = {}
        for option in self.session.goal.options:
            name, value = option if isinstance(option, tuple) else (None, option)
            names = [n for n, values in product.options.items() if value in values and name in (None, n)]
            if not names:
                return None
            plan[names[-1]] = value
        return plan if self.session.score_of(product, plan) == 1 else None


class ExpertWalk:
    """An expert with its own session, for ``steps_to_success``."""

    def __init__(self, expert: Expert) -> None:
        self._expert = expert

    def key(self) -> Hashable:
        """Return the state of the session."""
        s = self._expert.session
        return s.page, s.query, s.page_number, s.asin, frozenset(s.options.items())

    def advance(self) -> bool | None:
        """Take the expert's step; buying ends the walk, and a score of 1 is success."""
        action = self._expert.action()
        if action is None:
            return False
        task_score = self._expert.session.act("{}[{}]".format(*action))
        return None if task_score is None else task_score == 1
