"""WebShop's task score (Yao et al., 2022, Section 3): type, attributes, options and price of a purchase.

The score of a purchase is the share of the goal's attributes, options and price bound that it meets, multiplied by a
factor for the type of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from thefuzz.fuzz import token_set_ratio

from bepo.envs.webshop.catalogue import Product
from bepo.envs.webshop.goals import Goal

NounFilter = Callable[[str], Sequence[str]]
"""Maps a title to its nouns."""
COLORS = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo "
    "caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream "
    "crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather "
    "indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha "
    "multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal "
    "rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise "
    "violet walnut wheat white wine yellow"
).split()
"""The original's colour words, in its order."""


def purchase_score(
    product: Product, options: Iterable[str], price: float, goal: Goal, goal_product: Product, nouns: NounFilter
) -> float:
    """Return the score of buying ``product`` with ``options`` for ``price``, in [0, 1]; 1 if it meets the whole goal.

    ``goal_product`` is the product that the goal was made from.
    """
    hits = attribute_hits(product, goal) + option_hits(options, goal.options) + (price <= goal.price_upper)
    return hits / (len(goal.attributes) + len(goal.options) + 1) * type_score(product, goal_product, nouns)


def type_score(product: Product, goal_product: Product, nouns: NounFilter) -> float:
    """Return the factor for the type: 1 for the same shelf or a similar title, else 0.5, 0.1 or 0.

    The similarity of titles is the share of the goal product's nouns that the product's title has.
    """
    target = nouns(goal_product.title)
    common = len(set(nouns(product.title)) & set(target))
    similarity = common / len(target) if target else 0.2
    if similarity == 0:
        return 0.0
    if similarity < 0.1:
        return 0.1
    same_shelf = product.query == goal_product.query or len(_shelves(product) & _shelves(goal_product)) >= 2
    return 1.0 if same_shelf or similarity > 0.2 else 0.5


def attribute_hits(product: Product, goal: Goal) -> int:
    """Return the number of the goal's attributes that the product lists approximately or contains in its texts."""
    return sum(_has_attribute(product, attribute) for attribute in goal.attributes)


def option_hits(chosen: Iterable[str], goal_options: Sequence[str | tuple[str, str]]) -> int:
    """Return the number of the goal's options that match a chosen value approximately.

    The match is lenient, as in the original: "large" also satisfies ("size", "x-large").
    """
    values = [normalize_color(value) for value in chosen]
    return sum(any(_similar(value, normalize_color(option)) for value in values) for option in goal_options)


def normalize_color(option: str | tuple[str, str]) -> str | tuple[str, str]:
    """Return the first colour word that an option contains, else the option itself.

    A pair contains a colour word only if one of its two parts equals that word.
    """
    return next((color for color in COLORS if color in option), option)


def _has_attribute(product: Product, attribute: str) -> bool:
    if any(_similar(listed, attribute) for listed in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


@lru_cache(maxsize=1 << 18)
def _similar(a: str | tuple[str, str], b: str | tuple[str, str]) -> bool:
    return token_set_ratio(a, b) > 85  # thefuzz compares the printed form of a pair


def _shelves(product: Product) -> set[str]:
    return {name.strip() for name in product.product_category.split("›")}
