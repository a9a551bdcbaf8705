"""Figure claims-forest: the differences that the paper claims, reported and reproduced, with their intervals."""

from itertools import accumulate
from math import isfinite
from textwrap import fill

from matplotlib.axes import Axes

from analysis.claims.entries import Entries, OfEntries
from analysis.claims.formula import Inequality
from analysis.claims.printed import printed_interval
from analysis.claims.verdicts import NOT_JUDGED, Evaluated
from analysis.data.reported import all_entries
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots.hover import describe
from analysis.plots.style import GREY, PAGE, panels

_COLOURS = {"supported": "#1B7837", "contradicted": "#B2182B"}
_ROW = 0.138  # inches
_LETTERS = 64  # of a line of a claim


@artefact("claims-forest", "figure", of=OfEntries)
def claims_forest(entries: Entries) -> Figure:
    """Draw every printed or tested claim that one success or score is higher than another."""
    shown = [e for e in entries.evaluated if _is_difference(e, entries) and (e.printed.worst or e.runs.deciding)]
    shown.sort(key=lambda e: e.claim.extension)
    names = [_named(e) for e in shown]
    heights = [1 + 0.7 * name.count("\n") for name in names]
    rows = [end - height / 2 for end, height in zip(accumulate(heights), heights)]
    figure, axes = panels(1, 2, PAGE, 1.1 + _ROW * sum(heights), sharey=True)
    printed = all_entries()
    for row, e in zip(rows, shown):
        quantity = e.claim.comparisons[0].difference
        if e.printed.worst:
            interval = printed_interval(e.claim, quantity, printed)
            _draw(axes[0], row, e.claim.id, e.printed.worst.value, interval[1:] if interval else None, GREY)
        if e.runs.deciding:
            decisive, colour = e.runs.deciding, _COLOURS.get(e.runs.word, GREY)
            _draw(axes[1], row, f"{e.claim.id}, {e.runs.word}", decisive.value, decisive.interval, colour)
    for axis, title in zip(axes, ("Reported", f"Reproduced (tier {entries.tier})")):
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set(xlabel="Difference in points", title=title)
        axis.grid(axis="y", visible=False)
    axes[0].set_yticks(rows, names)
    axes[0].set_ylim(sum(heights) + 0.1, -0.1)
    words = "Grey: undecided; green: supported; red: contradicted." if entries.tier != NOT_JUDGED else "Not judged."
    caption = (
        "Claims that one success or task score is higher than another: the difference in points with its 95 % "
        "interval, from the printed deviations of three training seeds, and from the runs of tier "
        f"{entries.tier}. {words} *: carried over to text Sokoban."
    )
    notes = ["Verdicts are corrected for the number of claims, intervals are not. One training seed gives no interval."]
    return Figure(caption, figure, [run for e in shown for run in _runs(e, entries)], notes)


def _named(e: Evaluated) -> str:
    """Return the claim, in lines."""
    return fill(e.claim.claim.rstrip(".") + "\N{NO-BREAK SPACE}*" * e.claim.extension, _LETTERS)


def _is_difference(e: Evaluated, entries: Entries) -> bool:
    formula = e.claim.formula
    if not isinstance(formula, Inequality) or not formula.is_difference or formula.of_spread:
        return False
    keys = [e.claim.entries[name] for name in e.claim.names]
    return all(key not in entries.by_key or entries.by_key[key].episodes for key in keys)


def _runs(e: Evaluated, entries: Entries) -> list:
    keys = (e.claim.entries[name] for name in sorted(e.claim.names))
    return [run for key in keys if key in entries.by_key for run in entries.by_key[key].runs]


def _draw(axis: Axes, row: float, name: str, value: float, interval: tuple[float, float] | None, colour: str) -> None:
    bounds = ""
    if interval and isfinite(interval[0]):
        axis.plot(interval, (row, row), color=colour, linewidth=1)
        bounds = f" [{interval[0]:.3g}, {interval[1]:.3g}]"
    (dot,) = axis.plot([value], [row], "o", color=colour, markersize=3)
    describe(dot, [f"{name}: {value:+.3g}{bounds}"])
