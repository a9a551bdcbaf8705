"""Figures blocks-forest-<environment>: every method beside Gated-BEPO in the same blocks."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from analysis.claims.blocks import IN_BLOCKS, measured, runs_in_blocks
from analysis.claims.looks import BLOCK_MEASURES
from analysis.contrast import Contrast, Rates, weighted
from analysis.data.methods import RECONSTRUCTION, environment_name, is_reconstruction, name_of, row_label
from analysis.data.rows import BASELINE, ROW_IN_BLOCKS
from analysis.data.runs import Run
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import FEWEST
from analysis.grid.table import Figure
from analysis.plots import style
from analysis.plots.hover import describe

_ROW = 0.15  # inches
_BELOW = 0.3  # of a row: how far the dots of blocks are below the interval


@dataclass(frozen=True)
class _Row:
    """A method or variant, with its differences from Gated-BEPO by measure."""

    name: str
    differences: dict[str, Rates]

    @property
    def blocks(self) -> int:
        """The number of blocks that it shares with Gated-BEPO."""
        return len(self.differences["speed"])

    @property
    def label(self) -> str:
        """Its name in print, with the number of blocks where they are too few for an interval."""
        few = f" ({self.blocks} block{'s' * (self.blocks > 1)})" if self.blocks < FEWEST else ""
        return row_label(self.name) + few


def _forest(env: str, studies: Studies) -> Figure:
    """Draw the differences in each block of an environment, and their means with intervals."""
    used = [run for run in runs_in_blocks(studies) if run.env == env]
    rows, alone = _rows(used)
    figure, axes = style.panels(1, len(BLOCK_MEASURES), style.PAGE, 0.8 + _ROW * max(len(rows), 6), sharey=True)
    for axis, measure in zip(axes, BLOCK_MEASURES):
        axis.set(title=measure.capitalize(), xlabel=f"Difference from {name_of(BASELINE)} in points")
        axis.axvline(0, color="black", linewidth=0.6)
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)
        for place, row in enumerate(rows):
            if measure in row.differences:
                _draw(axis, place, row, measure)
        if not rows:
            style.nothing(axis)
    if rows:
        axes[0].set_yticks(range(len(rows)), [row.label for row in rows])
        axes[0].set_ylim(len(rows) - 0.4, -0.6)
    caption = (
        f"Methods and variants on {environment_name(env)} in the blocks that they share with {name_of(BASELINE)} (tier "
        f"{studies.tier}). Small dots: blocks. Large dots: means, with Student's 95 % intervals, uncorrected. Speed: "
        "success in training over all updates. Level: success on held-out tasks, over the evaluations of the last "
        "fifth of the updates."
    )
    notes = ["Exploratory, except for the claims of table blocks-claims."]
    few = [row.label for row in rows if row.blocks < FEWEST]
    notes += [f"Without mean and interval, because they have fewer than {FEWEST} blocks: {', '.join(few)}."] * bool(few)
    notes += [f"Not drawn, because they share no block with {name_of(BASELINE)}: {', '.join(alone)}."] * bool(alone)
    notes += [RECONSTRUCTION] * any(is_reconstruction(row.name.split()[0]) for row in rows)
    return Figure(caption, figure, used, notes)


def _rows(runs: list[Run]) -> tuple[list[_Row], list[str]]:
    """Return the rows of an environment, the fastest first, and the names of those that share no block."""
    frames = measured(runs)
    every = [
        _Row(name, {measure: weighted(table, {name: 1, BASELINE: -1}).to_numpy() for measure, table in frames.items()})
        for name in frames["speed"]
        if name != BASELINE
    ]
    shown = [row for row in every if row.blocks]
    alone = [row_label(row.name) for row in every if not row.blocks] if BASELINE in frames["speed"] else []
    return sorted(shown, key=lambda row: -row.differences["speed"].mean()), alone


def _draw(axis: Axes, place: int, row: _Row, measure: str) -> None:
    values, colour = row.differences[measure], style.method_colour(row.name.split()[0])
    axis.plot(
        values, np.full(len(values), place + _BELOW), "o", color=colour, markersize=1.8, alpha=0.6, markeredgewidth=0
    )
    if len(values) < FEWEST:
        return
    contrast = Contrast.over(values)
    axis.plot((contrast.interval.low, contrast.interval.high), (place, place), color=colour, linewidth=1.4)
    (dot,) = axis.plot([values.mean()], [place], "o", color=colour, markersize=3.6)
    describe(dot, [f"{row_label(row.name)}, {measure}, {len(values)} blocks: {contrast.text()}"])


def _register(env: str) -> None:
    artefact(f"blocks-forest-{env}", "figure", study=IN_BLOCKS, key=ROW_IN_BLOCKS)(
        lambda studies: _forest(env, studies)
    )


for _env in ("sokoban", "alfworld", "webshop"):
    _register(_env)
