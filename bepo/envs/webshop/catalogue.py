"""A WebShop catalogue: products, their attributes, and instructions written by people."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import prod
from typing import Any

from bepo.envs.webshop.search import Index

NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""The attributes of a product that the attribute file does not list (as in the original)."""
_NOT_A_NUMBER = re.compile(r"[^\d.]")
# The exceptions that parsing a malformed entry can raise.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError)


@dataclass(frozen=True, slots=True)
class Product:
    """A product, with the cleaned-up fields of the original's product file."""

    asin: str  # the product's id
    title: str
    description: str
    bullets: tuple[str, ...]
    pricing: tuple[float, ...]  # no price, one price, or the ends of a range, in dollars
    category: str  # such as fashion
    query: str  # the search by which the product was collected
    product_category: str  # the shelves, from the most general one on, separated by ›
    options: dict[str, tuple[str, ...]]  # name of an option -> values
    attributes: tuple[str, ...]

    @property
    def price_text(self) -> str:
        """Return the price as pages show it."""
        if not self.pricing:
            return "$100.0"
        return " to ".join(f"${price}" for price in self.pricing)

    @property
    def document(self) -> str:
        """Return the text that the search engine indexes."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return " ".join((self.title, self.description, first, options)).lower()


class Catalogue:
    """Products by number, in the order of the file, and a search index.

    Malformed entries are left out and counted.
    """

    def __init__(
        self,
        entries: Sequence[Mapping[str, Any]],
        attributes: Mapping[str, Mapping[str, Any]],
        human: Iterable[tuple[str, Iterable[Mapping[str, Any]]]],
        source: str,
    ) -> None:
        """Read all entries once.

        ``entries`` are the entries of the product file, which may be read from disk on demand. ``attributes`` are the
        entries of the attribute file by asin, ``human`` the instructions written by people by asin. ``source`` is a
        description.
        """
        self.source = source
        self._entries, self._attributes = entries, attributes
        self.left_out: Counter[str] = Counter()
        """The number of entries that were left out, by reason."""
        self.number: dict[str, int] = {}
        """The number of each product by its asin."""
        self.entry_numbers: list[int] = []
        """The number of each product's entry in the product file."""
        self.pricing: list[tuple[float, ...]] = []
        """``Product.pricing`` by product number."""
        self.combinations: list[int] = []
        """The number of combinations of option values, by product number."""
        content = hashlib.sha256()  # updated product by product: the full catalogue's texts do not fit into memory
        self.index = Index.build(self._documents(content.update))
        self.asins = list(self.number)
        """The asin of each product by its number."""
        human_entries = {asin: entries for asin, entries in human if asin in self.number}
        self.human_instructions = {asin: _human_instructions(entries) for asin, entries in human_entries.items()}
        """The instructions written by people, by asin: (instruction, attributes, option values)."""
        content.update(json.dumps(human_entries, sort_keys=True).encode())
        self.digest = content.hexdigest()[:16]
        """A digest (16 hex digits) of everything in the files that affects a task, a page or a reward."""
        self._make_cache()

    @classmethod
    def restored(
        cls,
        entries: Sequence[Mapping[str, Any]],
        attributes: Mapping[str, Mapping[str, Any]],
        entry_numbers: list[int],
        index: Index,
        metadata: Mapping[str, Any],
    ) -> Catalogue:
        """Return a catalogue from a cache; ``metadata`` are its other attributes by name."""
        known = cls.__new__(cls)
        vars(known).update(metadata)
        known._entries, known._attributes, known.entry_numbers, known.index = entries, attributes, entry_numbers, index
        known.number = {asin: number for number, asin in enumerate(known.asins)}
        known._make_cache()
        return known

    def _make_cache(self) -> None:
        self._cached_product = lru_cache(maxsize=50_000)(self._parse)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_cached_product"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_cache()

    def __len__(self) -> int:
        return len(self.number)

    def product(self, number: int) -> Product:
        """Return the product with a number."""
        return self._cached_product(number)

    def instruction(self, number: int) -> tuple[str, tuple[str, ...]] | None:
        """Return a product's synthetic instruction and the attributes that it names; None without an instruction."""
        return _instruction(self._attributes.get(self.asins[number], {}))

    def _parse(self, number: int) -> Product:
        return parse_product(self._entries[self.entry_numbers[number]], self._attributes.get(self.asins[number], {}))

    def _documents(self, digest: Callable[[bytes], None]) -> Iterator[tuple[str, str]]:
        """Yield the asin and the text of each product for the index, and fill in the tables by number.

        ``digest`` is called with the content of each product.
        """
        for entry_number, entry in enumerate(self._entries):
            try:
                extra = self._attributes.get(entry["asin"], {})
                product, instruction = parse_product(entry, extra), _instruction(extra)
            except _MALFORMED:
                self.left_out["corrupt"] += 1
                continue
            if product.asin == "nan" or len(product.asin) > 10:
                self.left_out["no asin"] += 1
            elif product.asin in self.number:
                self.left_out["repeated"] += 1
            else:
                self.number[product.asin] = len(self.number)
                self.entry_numbers.append(entry_number)
                self.pricing.append(product.pricing)
                self.combinations.append(prod(len(values) for values in product.options.values()))
                digest(repr((product, instruction)).encode())
                yield product.asin, product.document


def _human_instructions(entries: Iterable[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [
        (entry["instruction"], tuple(entry["instruction_attributes"]), tuple(entry["instruction_options"]))
        for entry in entries
    ]


def _instruction(extra: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    text = extra.get("instruction")
    return None if text is None else (text, tuple(extra["instruction_attributes"]))


def parse_product(entry: Mapping[str, Any], extra: Mapping[str, Any]) -> Product:
    """Return the product of an entry of the product file and its entry of the attribute file.

    A malformed entry raises ``KeyError``, ``TypeError``, ``ValueError`` or another exception of parsing.
    """
    bullets = entry["small_description"]
    attributes = extra.get("attributes")
    texts = [entry[k] for k in ("asin", "name", "full_description", "category", "query", "product_category")]
    bullets = bullets if isinstance(bullets, list) else [bullets]
    if not all(isinstance(text, str) for text in (*texts, *bullets)):
        raise TypeError("a text is missing")
    return Product(
        asin=entry["asin"],
        title=entry["name"],
        description=entry["full_description"],
        bullets=tuple(bullets),
        pricing=_prices(entry.get("pricing")),
        category=entry["category"],
        query=entry["query"].lower().strip(),
        product_category=entry["product_category"],
        options=_options(entry["customization_options"]),
        attributes=NO_ATTRIBUTES if attributes is None else tuple(attributes),
    )


def _prices(text: str | None) -> tuple[float, ...]:
    """Return the prices in a text such as ``$12.99$24.99``: at most two, or an empty tuple."""
    if not text:
        return ()
    prices = tuple(float(Decimal(_NOT_A_NUMBER.sub("", part))) for part in text.split("$")[1:])
    if not prices:
        raise ValueError(f"no price in {text!r}")
    return prices[:2]


def _options(customization: Mapping[str, Iterable[Mapping[str, Any]] | None] | None) -> dict[str, tuple[str, ...]]:
    options = {}
    for name, contents in (customization or {}).items():
        if contents is not None:
            options[name.lower()] = tuple(c["value"].strip().replace("/", " | ").lower() for c in contents)
    return options
