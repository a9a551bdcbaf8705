"""The style of all pictures: page sizes, colours, and bands over training seeds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from analysis.data.methods import environment_name, known_environments, known_methods
from analysis.data.runs import Run, grouped
from analysis.plots import hover
from bepo.explore.colours import colours, free
from bepo.explore.names import PRESETS

COLUMN, PAGE = 3.3, 7.0  # inches: one column, both columns
GREY = "#666666"
_GAP = 7.5  # points between two names
_MOST_IN_LEGEND = 5  # lines
_HIGH = 0.68  # height of an axis, as a share of its figure
_STYLE = Path(__file__).with_name("page.mplstyle")


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure of a printed size (inches) and its axes, row by row."""
    plt.style.use(_STYLE)
    mpl.rcParams["figure.max_open_warning"] = 0  # figures of all tiers are open at once
    options |= {"figsize": (width, height), "layout": "constrained", "squeeze": False, "dpi": 200}
    figure, axes = plt.subplots(rows, columns, **options)
    return figure, list(axes.flat)


def method_colour(method: str) -> str:
    """Return the colour of a method, for a preset its estimator's; black if it is not an estimator."""
    estimator = PRESETS[method].estimator if method in PRESETS else method
    return colours(known_methods()).get(estimator, "black")


def variant_colours(method: str, count: int) -> list[str]:
    """Return colours for variants of a method: the method's for the first, for the others some that no method has."""
    return [method_colour(method), *free(count - 1, colours(known_methods()).values())]


def environment_line(env: str) -> dict[str, Any]:
    """Return name, colour and dashes of an environment's line."""
    known, name = known_environments(), environment_name(env)
    dashes = known[env].dashes
    return {"color": colours(known)[env], "linestyle": (0, dashes) if dashes else "-", "label": name}


def over_updates(axis: Axes, label: str, title: str = "") -> None:
    """Label the axes of curves over updates."""
    axis.set(xlabel="Update", ylabel=label, title=title)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def percent(axis: Axes, least: float = 10) -> None:
    """Set the y axis from slightly below zero to the largest value, at least ``least`` and at most 100."""
    top = min(max(axis.get_ylim()[1], least), 100)
    axis.set_ylim(-0.03 * top, 1.02 * top)


def not_below_zero(axis: Axes) -> None:
    """Let the y axis begin at most a line's width below zero."""
    bottom, top = axis.get_ylim()
    axis.set_ylim(max(bottom, -0.03 * top), top)


def legend_above(figure: Figure, handles: Sequence, columns: int) -> None:
    """Put one legend above all axes, if there are handles."""
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=columns, columnspacing=1.2)


def name_all(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Put one legend above all axes; with more than five lines, their names at their ends in the last axes."""
    lines = max((axis.lines for axis in axes), key=len)
    if len(axes[-1].lines) == len(lines) > _MOST_IN_LEGEND:
        name_lines(axes[-1])
    else:
        legend_above(figure, lines, columns)


def _end(line: Line2D) -> float:
    return float(np.asarray(line.get_ydata(), float)[-1])


def name_lines(axis: Axes, height: Callable[[Line2D], float] = _end) -> None:
    """Write the label of each line beside the axes, in its colour, without overlap.

    ``height`` is where it would stand best, by default the line's end. It stands as near as the other labels allow.
    """
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    labelled = sorted((line for line in axis.lines if not str(line.get_label()).startswith("_")), key=height)
    if not labelled:
        return
    figure = axis.get_figure(root=True)
    assert figure is not None
    gap = _GAP / (72 * _HIGH * figure.get_figheight()) * (high - low)
    steps = gap * np.arange(len(labelled))
    # the nearest places, in least squares, at least a gap apart
    places = np.maximum(isotonic_regression(list(map(height, labelled)) - steps).x, low) + steps
    for line, place in zip(labelled, places):
        name, colour = str(line.get_label()), line.get_color()
        axis.text(right + 0.01 * (right - left), place, name, color=colour, fontsize=6.5, va="center")
    axis.set_xlim(left, right)
    axis.margins(x=0)


def letters(axes: Iterable[Axes]) -> None:
    """Put (a), (b), ... before the titles."""
    for letter, axis in zip("abcdefgh", axes):
        axis.set_title(f"({letter}) {axis.get_title()}")


def band(axis: Axes, table: pd.DataFrame, color: str, least: float = -inf, most: float = inf, **line: Any) -> None:
    """Draw the mean over training seeds, and a band of one sample standard deviation.

    ``table`` has one row per update and one column per training seed. Nothing is drawn if it is empty. The band is cut
    at ``least`` and ``most``, the limits of the quantity.
    """
    if table.empty:
        return
    mean, std = table.mean(axis=1), table.std(axis=1, ddof=1).fillna(0)
    (drawn,) = axis.plot(mean.index, mean, color=color, **line)
    low, high = (mean - std).clip(least, most), (mean + std).clip(least, most)
    shade = axis.fill_between(mean.index, low, high, color=color, alpha=0.18, linewidth=0)
    name, seeds = str(drawn.get_label()), table.notna().sum(axis=1)
    hover.describe(
        drawn,
        [
            f"{name.lstrip('_') or axis.get_ylabel()}, update {u}: {m:.4g} ± {s:.2g} (n = {n})"
            for u, m, s, n in zip(mean.index, mean, std, seeds)
        ],
    )
    for artist in (drawn, shade):
        hover.belongs(artist, name)


def by_seed(runs: Iterable[Run], value: str, split: str = "") -> pd.DataFrame:
    """Return (updates, training seeds): a metric of the runs that logged it, or the mean over episodes of a split."""
    tables = [(run.seed, run.episodes.loc[run.episodes["split"] == split, :] if split else run.metrics) for run in runs]
    frames = [table[["update", value]].assign(seed=seed) for seed, table in tables if value in table]
    if not frames:
        return pd.DataFrame()
    rows = pd.concat(frames).dropna(subset=[value]).astype({value: float})
    return rows.pivot_table(index="update", columns="seed", values=value)


def unlogged(runs: Sequence[Run], metrics: Iterable[str]) -> list[str]:
    """Return notes on the runs that are missing from curves because they did not log a metric."""
    logged = {run.id: run.metrics.dropna(axis="columns", how="all").columns for run in runs}
    missing = grouped(metrics, lambda metric: ", ".join(run for run in logged if metric not in logged[run]))
    return [f"Left out, not logged: {', '.join(names)} (runs {ids})." for ids, names in missing.items() if ids]


def if_empty(axis: Axes, runs: Sequence[Run]) -> None:
    """Write into an axis without data why it is empty."""
    if not (axis.lines or axis.patches):
        nothing(axis, "not logged" if runs else "not run")


def nothing(axis: Axes, text: str = "not run") -> None:
    """Write a text into an axis, and remove its ticks."""
    axis.set(xticks=[], yticks=[])
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color=GREY)


def counted(groups: Mapping[str, Iterable[Run]]) -> str:
    """Return ``n = 3 training seeds`` if all groups agree, else the number by group. Empty groups are left out."""
    counts = {name: len({run.seed for run in runs}) for name, runs in groups.items()}
    counts = {name: n for name, n in counts.items() if n}
    if len(set(counts.values())) > 1:
        return "training seeds: " + ", ".join(f"{name} n = {n}" for name, n in counts.items())
    return next((f"n = {n} training seed{'s' if n != 1 else ''}" for n in counts.values()), "no runs")


def bands_note(groups: Mapping[str, Iterable[Run]]) -> str:
    """Return the sentence of a caption that explains curves and bands. ``groups`` are the runs of each curve."""
    many = any(len({run.seed for run in runs}) > 1 for runs in groups.values())
    return f"Mean over {counted(groups)}" + (
        "; bands: one sample standard deviation, cut at the limits of the quantity." if many else "; no band."
    )
