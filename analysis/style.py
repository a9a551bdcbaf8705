"""How every picture looks: sizes of the printed page, one style, bands over training seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import methods
from analysis.runs import Run, Study

COLUMN, PAGE = 3.3, 7.0  # inches: one column, both columns
SMOOTH = 5  # updates in a running mean

GREY = "#666666"
# Environments are never drawn as methods: colours of their own (Tol's muted scheme), and a dash each.
ENVIRONMENTS = {
    "alfworld": (methods.ENVIRONMENTS["alfworld"], "#332288", "-"),
    "webshop": (methods.ENVIRONMENTS["webshop"], "#AA4499", (0, (4, 1.5))),
    "sokoban": (methods.ENVIRONMENTS["sokoban"], "#117733", (0, (1, 1))),
}
_STYLE = {
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,  # real fonts: publishers refuse type 3
    "figure.max_open_warning": 0,  # all tiers are built before any is written and closed
}


def panels(rows: int, columns: int, width: float, height: float, **options: object) -> tuple[Figure, list[Axes]]:
    """A figure of a printed size (inches) and its axes, row by row."""
    mpl.rcParams.update(_STYLE)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **{"dpi": 200} | options
    )
    return figure, list(axes.flat)


def over_updates(axis: Axes, label: str, title: str = "") -> None:
    axis.set_xlabel("Update")
    axis.set_ylabel(label)
    axis.set_title(title)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def percent(axis: Axes, least: float = 10) -> None:
    """From zero, which stays off the frame, to what is drawn, but at least to ``least`` and at most to 100."""
    top = min(max(axis.get_ylim()[1], least), 100)
    axis.set_ylim(-0.03 * top, 1.02 * top)


def legend_above(figure: Figure, handles: Sequence, columns: int) -> None:
    """Of all panels, where it can hide no data; none without handles."""
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=columns, columnspacing=1.2)


def letters(axes: Iterable[Axes]) -> None:
    """(a), (b), ... before the titles."""
    for letter, axis in zip("abcdefgh", axes):
        axis.set_title(f"({letter}) {axis.get_title()}")


def band(axis: Axes, table: pd.DataFrame, color: str, **line: object) -> None:
    """``table`` is (updates, training seeds): the mean, and a band of one sample standard deviation. Empty: nothing."""
    if table.empty:
        return
    mean, std = table.mean(axis=1), table.std(axis=1, ddof=1).fillna(0)
    axis.plot(mean.index, mean, color=color, **line)
    axis.fill_between(mean.index, mean - std, mean + std, color=color, alpha=0.18, linewidth=0)


def by_seed(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """(updates, training seeds) of the runs that logged ``value``; empty where none did."""
    if value not in frame:
        return pd.DataFrame()
    return frame.dropna(subset=[value]).pivot_table(index="update", columns="seed", values=value)


def unlogged(studies: Iterable[Study], metrics: Iterable[str]) -> list[str]:
    """Notes that name the runs which are missing from curves, having logged no such metric."""
    found = defaultdict(list)
    for metric in metrics:
        lacking = [
            r.id for s in studies for r in s.records if metric not in r.metrics or r.metrics[metric].isna().all()
        ]
        found[", ".join(lacking)].append(metric)
    return [f"Left out, not logged: {', '.join(names)} (runs {ids})." for ids, names in found.items() if ids]


def smoothed(table: pd.DataFrame) -> pd.DataFrame:
    """The running mean over ``SMOOTH`` updates, which begins with fewer."""
    return table.rolling(SMOOTH, min_periods=1).mean()


def if_empty(axis: Axes, study_has_runs: bool) -> None:
    """An axis without data says so."""
    if not axis.lines and not axis.patches:
        nothing(axis, "not logged" if study_has_runs else "not run")


def nothing(axis: Axes, text: str = "not run") -> None:
    """Instead of ticks and lines."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", va="center", color=GREY)


def seeds(runs: Iterable[Run]) -> int:
    return len({run.seed for run in runs})


def seeds_by_environment(studies: Mapping[str, Study]) -> dict[str, int]:
    """Training seeds of each environment that has runs, by its printed name."""
    return {ENVIRONMENTS[env][0]: seeds(study.records) for env, study in studies.items() if study.records}


def counted(counts: dict[str, int]) -> str:
    """``n = 3 training seeds`` where all agree, else by name."""
    if not counts:
        return "no runs"
    if len(set(counts.values())) == 1:
        n = next(iter(counts.values()))
        return f"n = {n} training seed{'s' if n != 1 else ''}"
    return "training seeds: " + ", ".join(f"{name} n = {n}" for name, n in counts.items())


def bands_note(counts: dict[str, int]) -> str:
    many = max(counts.values(), default=0) > 1
    return f"Mean over {counted(counts)}" + ("; bands: one sample standard deviation." if many else "; no band.")
