"""A generated catalogue in the format of the original's three files, with invented products.

``python -m bepo.envs.webshop.generate FOLDER`` writes the files under the names of the original's small catalogue.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from bepo.core.errors import Parser, path_of, whole_number
from bepo.envs.webshop.goods import BRANDS, COLORS, EXTRA_OPTIONS, FAMILIES, STYLES, TAILS, Family

_ASIN = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_REQUESTS = ("i am looking for a {}", "i need a {}", "find me a {}", "i want to buy a {}", "please show me a {}")
_INSTRUCTED = 0.7  # share of products with a synthetic instruction
_UNPRICED = 0.05  # share of products without a price
_RANGED = 0.25  # share of products with a price range

Entry = dict[str, Any]
"""An entry of one of the files."""


def generate(
    products: int, seed: int, colors: int = len(COLORS), extra_options: int = 0
) -> tuple[list[Entry], dict[str, Entry], dict[str, list[Entry]]]:
    """Return ``(products, attributes by asin, human instructions by asin)``, the same in every process."""
    rng = Random(seed)
    entries, attribute_entries, human_entries = [], {}, {}
    titles: set[str] = set()
    while len(entries) < products:
        family = rng.choice(FAMILIES)
        entry, attributes = _product(family, rng, COLORS[:colors], EXTRA_OPTIONS[:extra_options])
        if entry["name"] in titles or entry["asin"] in attribute_entries:
            continue
        titles.add(entry["name"])
        entries.append(entry)
        attribute_entries[entry["asin"]] = _attribute_entry(family, attributes, rng)
        human_entries[entry["asin"]] = [_human_entry(family, entry, attributes, rng) for _ in range(rng.randint(1, 10))]
    return entries, attribute_entries, human_entries


def _product(
    family: Family, rng: Random, colors: list[str], extra: list[tuple[str, list[str]]]
) -> tuple[Entry, list[str]]:
    """Return an entry of the product file, and the attributes of the product."""
    kind, brand, material = rng.choice(family.kinds), rng.choice(BRANDS), rng.choice(family.materials)
    attributes = rng.sample(family.attributes, rng.randint(2, 5))
    options = {
        name: rng.sample(pool, rng.randint(2, min(4, len(pool)))) for name, pool in _option_pools(family, rng, colors)
    }
    options |= dict(extra)
    title = ", ".join([f"{brand} {rng.choice(STYLES)} {material} {kind}", *attributes[:2]])
    bullets = [f"{a.upper()}: made to be {a}, so that this {kind} serves you for years." for a in attributes]
    bullets.append(f"{brand} answers within a day if anything about your {kind} is not as it should be.")
    rng.shuffle(bullets)
    return {
        "asin": "B0" + "".join(rng.choices(_ASIN, k=8)),
        "name": f"{title}, {rng.choice(TAILS)}".title(),
        "full_description": f"A {kind} of {material} by {brand}: {' and '.join(attributes)}. {rng.choice(TAILS)}.",
        "small_description": bullets,
        "pricing": _pricing(family, rng),
        "images": [f"https://example.invalid/{kind.replace(' ', '-')}.jpg"],
        "category": family.category,
        "query": family.query,
        "product_category": " › ".join(family.shelves),
        "customization_options": {
            name: [{"value": value, "image": None} for value in values] for name, values in options.items()
        },
    }, attributes


def _option_pools(family: Family, rng: Random, colors: list[str]) -> list[tuple[str, list[str]]]:
    """Return a product's options and their possible values. Most products have a colour and one more option."""
    pools = list(family.options.items())
    if family.colored and rng.random() < 0.9:
        pools.insert(0, ("color", colors))
    return pools


def _pricing(family: Family, rng: Random) -> str:
    low, high = family.prices
    price = rng.uniform(low, high)
    chance = rng.random()
    if chance < _UNPRICED:
        return ""
    if chance < _UNPRICED + _RANGED:
        return f"${price:.2f}${price * rng.uniform(1.05, 1.4):.2f}"
    return f"${price:.2f}"


def _attribute_entry(family: Family, attributes: list[str], rng: Random) -> Entry:
    """Return an entry of the attribute file, with or without a synthetic instruction."""
    entry: Entry = {"attributes": attributes}
    if rng.random() < _INSTRUCTED:
        asked = rng.sample(attributes, rng.randint(1, min(3, len(attributes))))
        entry |= {"instruction": f"Find me {', '.join(asked)} {family.query}", "instruction_attributes": asked}
    return entry


def _human_entry(family: Family, entry: Entry, attributes: list[str], rng: Random) -> Entry:
    """Return an entry of the file of human instructions."""
    asked = rng.sample(attributes, rng.randint(1, min(3, len(attributes))))
    options = {name: rng.choice(c)["value"] for name, c in entry["customization_options"].items()}
    kind = next(k for k in family.kinds if k in entry["full_description"])
    text = rng.choice(_REQUESTS).format(f"{' and '.join(asked)} {kind}")
    if options:
        text += " in " + " and ".join(options.values())
    return {
        "asin": entry["asin"],
        "instruction": text + ".",
        "attributes": attributes,
        "options": [f"{name}: {value}" for name, value in options.items()],
        "instruction_attributes": asked,
        "instruction_options": list(options.values()),
    }


def write(folder: Path, products: int = 1000, seed: int = 0) -> None:
    """Write the three files, named like the original's small catalogue whatever the number of products."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")
    for name, content in zip(names, generate(products, seed)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    """Read the command line, and write the files."""
    parser = Parser(prog="python -m bepo.envs.webshop.generate", description=__doc__)
    parser.add_argument("folder", type=path_of)
    parser.add_argument("--products", type=whole_number(1, 1_000_000), default=1000)
    parser.add_argument("--seed", type=whole_number(0, 2**63 - 1), default=0)
    options = parser.parse_args()
    write(options.folder, options.products, options.seed)


if __name__ == "__main__":
    main()
