"""Rows beside a base: paired over blocks where enough were trained, else over training seeds of one warm start."""

from collections.abc import Callable, Mapping

import pandas as pd

from analysis.contrast import Contrast, Rates
from analysis.data.runs import grouped

FEWEST = 3  # blocks that a comparison needs


def contrasts(base: str, rates: Mapping[str, Rates], blocks: pd.DataFrame) -> dict[str, Contrast]:
    """Return the difference of every row from ``base``, in points.

    ``rates``: a number for each seed of one warm start; ``blocks``: one for each block, blocks by
    rows. Rows that share neither with
    ``base`` are left out.
    """
    by_row = {}
    for name in _rows(rates, blocks, base):
        contrast = Contrast.of(blocks, {name: 1, base: -1})
        if contrast.units >= FEWEST:
            by_row[name] = contrast
        elif name in rates and base in rates:
            by_row[name] = Contrast.between([rates[name], rates[base]])
    return by_row


def shares(ends: tuple[str, str], rates: Mapping[str, Rates], blocks: pd.DataFrame) -> dict[str, Contrast]:
    """Return the way of each row from the first to the second of ``ends``, in per cent, by the delta method."""
    by_row = {}
    for name in _rows(rates, blocks, *ends):
        common = blocks.reindex(columns=[*ends, name]).dropna()
        if len(common) >= FEWEST:
            by_row[name] = _paired_share(*common.to_numpy().T)
        elif {name, *ends} <= rates.keys():
            by_row[name] = share(*(rates[row] for row in (*ends, name)))
    return by_row


def _rows(rates: Mapping[str, Rates], blocks: pd.DataFrame, *without: str) -> list[str]:
    return [name for name in dict.fromkeys([*rates, *blocks]) if name not in without]


def share(low: Rates, high: Rates, row: Rates) -> Contrast:
    """Return the share of three independent samples. The denominator must be far from zero."""
    headroom = float(high.mean() - low.mean())
    value = float(row.mean() - low.mean()) / headroom
    slopes = [100 / headroom * slope for slope in (1, -value, value - 1)]
    return Contrast.between([row, high, low], slopes, 100 * value)


def _paired_share(low: Rates, high: Rates, row: Rates) -> Contrast:
    headroom = float((high - low).mean())
    value = float((row - low).mean()) / headroom
    residual = (row - low) - value * (high - low)
    return Contrast.between([residual], [100 / headroom], 100 * value, len(row))


def by_place(by_name: Mapping[str, Contrast], told: Callable[[Mapping[str, Contrast]], str]) -> str:
    """Return a sentence for each number of blocks, the largest first, and last the one about one warm start."""
    places = sorted(grouped(by_name.items(), lambda item: item[1].units).items(), reverse=True)
    return ". ".join(f"{f'{blocks} blocks' if blocks else 'One start'}: {told(dict(same))}" for blocks, same in places)
