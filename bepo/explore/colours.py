"""The colours of estimators and environments, in figures and on pages, and how different two colours look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product

import numpy as np
from jaxtyping import Float

from bepo.credit import Estimator, estimators
from bepo.envs import Environment

_LEVELS = (0x00, 0x22, 0x44, 0x66, 0x88, 0xAA, 0xCC, 0xEE)
_LIGHTNESS = (0.38, 0.76)  # in OKLab: readable on white and on the dark page
_LINEAR = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(colour: str) -> Float[np.ndarray, "3"]:
    """Return a colour ``#RRGGBB`` in OKLab (Ottosson, 2020): lightness in [0, 1] and two axes of hue."""
    share = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return _LAB @ np.cbrt(_LINEAR @ linear)


def distance(a: str, b: str) -> float:
    """Return the visible difference of two colours: their distance in OKLab. 0.02 is just noticeable side by side."""
    return float(np.linalg.norm(oklab(a) - oklab(b)))


def colours(known: Mapping[str, type[Estimator] | type[Environment]]) -> dict[str, str]:
    """Return a colour for each class by name: the one it declares, or the free one that looks most different."""
    chosen = {name: cls.colour for name, cls in known.items() if cls.colour}
    for name in known:
        if name not in chosen:
            chosen[name] = next(iter(free(1, chosen.values())))
    return chosen


def free(count: int, taken: Iterable[str] = ()) -> list[str]:
    """Return ``count`` colours, each as different as possible from all before it and from those that are taken."""
    names, places = _candidates()
    used = [oklab(colour) for colour in taken] or [oklab("#000000")]
    nearest = np.min([np.linalg.norm(places - place, axis=1) for place in used], axis=0)
    chosen = []
    for _ in range(count):
        best = int(nearest.argmax())
        chosen.append(names[best])
        nearest = np.minimum(nearest, np.linalg.norm(places - places[best], axis=1))
    return chosen


@cache
def _candidates() -> tuple[list[str], Float[np.ndarray, "C 3"]]:
    names = [f"#{r:02X}{g:02X}{b:02X}" for r, g, b in product(_LEVELS, repeat=3)]
    places = np.stack([oklab(name) for name in names])
    kept = (places[:, 0] > _LIGHTNESS[0]) & (places[:, 0] < _LIGHTNESS[1])
    return [name for name, keep in zip(names, kept) if keep], places[kept]


def page_colour(estimator: str) -> str:
    """Return the colour of an estimator on a page. Black, also of an unknown estimator, follows the page's text."""
    colour = colours(estimators()).get(estimator, "#000000")
    return "var(--text)" if colour == "#000000" else colour
