"""Goals: the product that a shopper must buy, with an upper price bound. Prices and bounds follow from a seed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

from bepo.envs.webshop.catalogue import Catalogue

NO_BOUND = 1_000_000.0
"""The upper price bound of a goal whose instruction names no bound."""
_BOUNDS = tuple(10.0 * i for i in range(1, 100))


@dataclass(frozen=True, slots=True)
class Goal:
    """The product that a shopper must buy, with attributes, options and an upper price bound."""

    asin: str  # of the product that the goal was made from
    instruction: str
    attributes: tuple[str, ...]
    price_upper: float  # in dollars
    options: tuple[str | tuple[str, str], ...]  # (name, value) in synthetic goals, the values alone in human ones

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Goal:
        """Return the goal of a task, whose JSON data has lists in place of tuples."""
        options = tuple(tuple(o) if isinstance(o, list) else o for o in data["options"])
        return cls(data["asin"], data["instruction"], tuple(data["attributes"]), data["price_upper"], options)


def draw_prices(catalogue: Catalogue, rng: Random) -> list[float]:
    """Return one price for each product, by product number.

    The price is drawn uniformly from a price range; a product without a price costs 100 dollars.
    """
    return [
        100.0 if not pricing else pricing[0] if len(pricing) == 1 else rng.uniform(*pricing)
        for pricing in catalogue.pricing
    ]


def draw_bound(price: float, rng: Random) -> tuple[float, str]:
    """Return ``(upper bound, its part of the instruction)``.

    The bound is the larger of two draws from the first four multiples of 10 (up to 990) above the price. If there are
    fewer than two, the bound is ``NO_BOUND`` and the instruction does not name it.
    """
    above = [bound for bound in _BOUNDS if bound > price][:4]
    if len(above) < 2:
        return NO_BOUND, ""
    bound = max(rng.sample(above, 2))
    return bound, f", and price lower than {bound:.2f} dollars"


def human_goals(catalogue: Catalogue, prices: Sequence[float], rng: Random) -> list[Goal]:
    """Return one goal for each instruction written by people; instructions without attributes are left out."""
    goals = []
    for asin, number in catalogue.number.items():
        for text, attributes, options in catalogue.human_instructions.get(asin, ()):
            if attributes:
                bound, bound_text = draw_bound(prices[number], rng)
                goals.append(Goal(asin, text.strip(".") + bound_text, attributes, bound, options))
    return goals


class SyntheticGoals(Sequence[Goal]):
    """One goal for every combination of a product's options.

    Goals are made on demand, because the full catalogue has millions of them.
    """

    def __init__(self, catalogue: Catalogue, prices: Sequence[float], rng: Random) -> None:
        """Draw the price bounds; ``prices`` are by product number."""
        self._catalogue = catalogue
        self._asins = list(catalogue.number)
        bounds = [(n, draw_bound(p, rng)) for n, p in enumerate(prices) if catalogue.instruction(n) is not None]
        self._products = [number for number, _ in bounds]
        self._bounds = [bound for _, bound in bounds]
        self._ends = list(accumulate(catalogue.combinations[n] for n in self._products))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, at: int) -> Goal:
        if not 0 <= at < len(self):
            raise IndexError(at)
        place = bisect_right(self._ends, at)
        number, (bound, bound_text) = self._products[place], self._bounds[place]
        options = self._combination(number, at - (self._ends[place - 1] if place else 0))
        instruction = self._catalogue.instruction(number)
        assert instruction is not None  # as for all of ``_products``
        text, attributes = instruction
        chosen = ", and ".join(f"{name}: {value}" for name, value in options)
        text += (f" with {chosen}" if chosen else "") + bound_text
        return Goal(self._asins[number], text, attributes, bound, options)

    def _combination(self, number: int, at: int) -> tuple[tuple[str, str], ...]:
        """Return the ``at``-th combination; names are in alphabetical order, and the last name varies fastest."""
        options = self._catalogue.product(number).options
        chosen = []
        for name in sorted(options, reverse=True):
            at, value = divmod(at, len(options[name]))
            chosen.append((name, options[name][value]))
        return tuple(reversed(chosen))


def permutation(n: int, seed: int) -> list[int]:
    """Return the numbers 0 to n - 1 in the order that ``random.seed(seed); random.shuffle(goals)`` gives n goals."""
    order = list(range(n))
    Random(seed).shuffle(order)
    return order
