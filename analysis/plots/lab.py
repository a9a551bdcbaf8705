"""Pictures of the lab's measurements along a dial."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t

from analysis.data.lab import LabRows, OverWorlds, label_of
from analysis.data.statistics import CONFIDENCE
from analysis.plots import style
from analysis.plots.hover import belongs, describe
from bepo.explore.colours import free

_DASHES = ("-", "--", ":", "-.")


def along(rows: LabRows, dial: str, estimators: Sequence[str], measure: str) -> Figure:
    """Draw a measure of some estimators along a dial."""
    figure, (axis,) = style.panels(1, 1, style.PAGE, 3)
    axis.set(xlabel=dial, ylabel=measure)
    for number, (words, colour) in enumerate(zip(estimators, free(len(estimators)))):
        lab_line(axis, label_of(words), colour, number, rows.along(dial, words, measure))
    scale(axis, dial)
    style.legend_above(figure, axis.lines, columns=4)
    return figure


def scale(axis: Axes, dial: str) -> None:
    """Give group sizes a logarithmic axis."""
    if dial == "group_size":
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:.0f}")


def lab_line(axis: Axes, name: str, colour: str, number: int, points: Mapping[float, OverWorlds]) -> None:
    """Draw a measure over a dial with a band of Student's 95 % interval over worlds; ``number`` chooses the dashes."""
    at, dashes = list(points), _DASHES[number % len(_DASHES)]
    mean = np.array([values.mean() for values in points.values()])
    half = np.array([_half(values) for values in points.values()])
    (line,) = axis.plot(at, mean, color=colour, linestyle=dashes, marker="o", markersize=2.5, label=name)
    shade = axis.fill_between(at, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
    describe(line, [f"{name}, {x:g}: {m:.3f} ± {h:.3f}" for x, m, h in zip(at, mean, half)])
    belongs(line, name)
    belongs(shade, name)


def _half(values: OverWorlds) -> float:
    n = len(values)
    return float(t.ppf((1 + CONFIDENCE) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
