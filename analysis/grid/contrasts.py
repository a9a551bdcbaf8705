"""Rows beside a base: paired over blocks where enough were trained, else over training seeds of one warm start."""

from collections.abc import Callable, Mapping

import numpy as np

from analysis.contrast import Contrast, Rates
from analysis.data.runs import grouped
from analysis.grid.success import mean_of
from analysis.grid.table import Printed

FEWEST = 3  # blocks that a comparison needs
ByBlock = Mapping[int, float]
"""A number for each block, by the block's seed."""


def contrasts(base: str, rates: Mapping[str, Rates], blocks: Mapping[str, ByBlock]) -> dict[str, Contrast]:
    """Return the difference of every row from ``base``, in points.

    ``rates``: a number for each seed of one warm start; ``blocks``: one for each block. Rows that share neither with
    ``base`` are left out.
    """
    found = {}
    for name in _rows(rates, blocks, base):
        points = paired(blocks.get(name, {}), blocks.get(base, {}))
        if len(points) >= FEWEST:
            found[name] = Contrast.over(points)
        elif name in rates and base in rates:
            found[name] = Contrast.between([rates[name], rates[base]])
    return found


def shares(ends: tuple[str, str], rates: Mapping[str, Rates], blocks: Mapping[str, ByBlock]) -> dict[str, Contrast]:
    """Return how far each row is from the first to the second of ``ends``, in per cent, by the delta method."""
    found = {}
    low, high = (blocks.get(end, {}) for end in ends)
    for name in _rows(rates, blocks, *ends):
        own = blocks.get(name, {})
        common = sorted(own.keys() & low.keys() & high.keys())
        if len(common) >= FEWEST:
            found[name] = _paired_share(*(np.array([one[block] for block in common]) for one in (low, high, own)))
        elif {name, *ends} <= rates.keys():
            found[name] = share(*(rates[row] for row in (*ends, name)))
    return found


def _rows(rates: Mapping[str, Rates], blocks: Mapping[str, ByBlock], *without: str) -> list[str]:
    return [name for name in dict.fromkeys([*rates, *blocks]) if name not in without]


def share(low: Rates, high: Rates, own: Rates) -> Contrast:
    """Return the share of three independent samples. The denominator must be far from zero."""
    headroom = float(high.mean() - low.mean())
    value = float(own.mean() - low.mean()) / headroom
    slopes = [100 / headroom * slope for slope in (1, -value, value - 1)]
    return Contrast.between([own, high, low], slopes, 100 * value)


def _paired_share(low: Rates, high: Rates, own: Rates) -> Contrast:
    headroom = float((high - low).mean())
    value = float((own - low).mean()) / headroom
    residual = (own - low) - value * (high - low)
    return Contrast.between([residual], [100 / headroom], 100 * value, len(own))


def by_place(found: Mapping[str, Contrast], told: Callable[[Mapping[str, Contrast]], str]) -> str:
    """Return a sentence for each number of blocks, the largest first, and last the one about one warm start."""
    places = sorted(grouped(found.items(), lambda item: item[1].units).items(), reverse=True)
    return ". ".join(f"{f'{blocks} blocks' if blocks else 'One start'}: {told(dict(own))}" for blocks, own in places)


def compared(own: ByBlock, base: ByBlock) -> list[Printed | str]:
    """Return the mean over blocks, and the mean difference from ``base`` with its interval (a dash without any)."""
    return [mean_of(np.array(list(own.values()))), Contrast.over(paired(own, base)).text()]


def paired(more: ByBlock, less: ByBlock) -> Rates:
    """Return the differences in the blocks that both have, by block."""
    return np.array(list(differences(more, less).values()))


def differences(more: ByBlock, less: ByBlock) -> dict[int, float]:
    """Return the difference in each block that both have."""
    return {block: more[block] - less[block] for block in sorted(more.keys() & less.keys())}
