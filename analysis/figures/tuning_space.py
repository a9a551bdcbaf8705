"""Figures optuna-parallel, optuna-slice and optuna-contour: the settings that Optuna tried, and their objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import optuna
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure as Picture
from optuna.distributions import BaseDistribution, CategoricalDistribution

from analysis.data.studies import Studies
from analysis.figures.tuning import (
    STUDIES,
    TRIAL,
    aims,
    counts,
    importances,
    objective,
    picture,
    stored_studies,
    title_of,
)
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots.style import PAGE, nothing, panels
from bepo.runs.trials_database import finite_trials

_COLOURS = "viridis"
_BEHIND = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}  # of a label
_MOST_SLICES = 6  # settings per study, the most important first


class Setting(NamedTuple):
    """One searched setting as positions on an axis."""

    name: str
    positions: Float[np.ndarray, " trials"]  # NaN if a trial does not have the setting
    ticks: list[float]
    labels: list[str]


@artefact("optuna-parallel", "figure", study=STUDIES, key=TRIAL)
def parallel(studies: Studies) -> Figure:
    """Draw each trial as a line through its settings."""
    what = (
        "Each line is a trial and passes through its settings; the most important setting is on the left. Its colour is"
    )
    return _figure(studies, partial(picture, draw=draw_parallel, in_a_row=1), what)


@artefact("optuna-slice", "figure", study=STUDIES, key=TRIAL)
def slices(studies: Studies) -> Figure:
    """Draw the objective against each setting."""
    what = (
        "Each trial by one of its settings, at most six per study, with a row for each objective; later trials are "
        "darker. The height of a first row is"
    )
    return _figure(studies, _slices, what)


@artefact("optuna-contour", "figure", study=STUDIES, key=TRIAL)
def contour(studies: Studies) -> Figure:
    """Draw the objective over the two most important settings."""
    what = "Each dot is a trial by its two most important settings. The colour is"
    return _figure(studies, partial(picture, draw=draw_contour), what)


def _figure(studies: Studies, draw: Callable[[Sequence[optuna.Study]], Picture], what: str) -> Figure:
    stored = stored_studies(studies)
    caption = f"{what} {aims(stored)} (tier {studies.tier}). {counts(stored)}"
    return Figure(caption, draw(stored), studies.runs)


def settings_of(study: optuna.Study) -> list[Setting]:
    """Return the settings of the complete trials, the most important first."""
    trials = finite_trials(study)
    kinds: dict[str, BaseDistribution] = {name: kind for t in trials for name, kind in t.distributions.items()}
    shares = importances(study)
    ordered = sorted(kinds, key=lambda name: (-shares.get(name, 0), name))
    return [_setting(name, kinds[name], [t.params.get(name) for t in trials]) for name in ordered]


def _setting(name: str, kind: BaseDistribution, values: Sequence[object]) -> Setting:
    if isinstance(kind, CategoricalDistribution):
        where = {repr(choice): float(i) for i, choice in enumerate(kind.choices)}
        positions = [where.get(repr(value), np.nan) for value in values]
        return Setting(name, np.array(positions), list(where.values()), [str(choice) for choice in kind.choices])
    low, high = vars(kind)["low"], vars(kind)["high"]
    scale = math.log10 if vars(kind).get("log") else float
    positions = [math.nan if value is None else scale(float(str(value))) for value in values]
    return Setting(name, np.array(positions), [scale(low), scale(high)], [f"{low:g}", f"{high:g}"])


def draw_parallel(axis: Axes, study: optuna.Study) -> None:
    """Draw trials as lines over settings. The height of the picture is the range of each setting."""
    known, colours = settings_of(study), _coloured(axis, study)
    if colours is None or not known:
        return nothing(axis, "no two complete trials that differ")
    heights = np.array([_scaled(setting) for setting in known])
    values = np.asarray(colours.get_array(), float)
    for number in np.argsort(values):  # the best ones are drawn last
        axis.plot(range(len(known)), heights[:, number], color=colours.to_rgba(values[number]), lw=0.8)
    axis.set_xticks(range(len(known)), [setting.name.rpartition(".")[2] for setting in known], rotation=35, ha="right")
    axis.set_yticks([])
    axis.set_ylim(-0.12, 1.12)
    for place, setting in enumerate(known):
        for tick, label in zip((setting.ticks - np.min(setting.ticks)) / (np.ptp(setting.ticks) or 1), setting.labels):
            height = -0.1 if tick == 0 else tick + 0.04
            axis.annotate(label, (place, height), ha="center", fontsize="xx-small", bbox=_BEHIND)


def draw_contour(axis: Axes, study: optuna.Study) -> None:
    """Draw the objective over two settings, interpolated between trials if these span an area."""
    known, colours = settings_of(study)[:2], _coloured(axis, study)
    if colours is None or len(known) < 2:
        return nothing(axis, "no two settings were searched")
    across, up = known
    used = ~np.isnan(across.positions + up.positions)
    x, y, values = across.positions[used], up.positions[used], np.asarray(colours.get_array(), float)[used]
    if len({*zip(x, y)}) > 3 and np.linalg.matrix_rank(np.stack([x - x[0], y - y[0]])) == 2:
        axis.tricontourf(x, y, values, levels=8, cmap=_COLOURS, norm=colours.norm, alpha=0.6)
    axis.scatter(x, y, c=colours.to_rgba(values), s=12, edgecolors="black", linewidths=0.4, zorder=2)
    axis.set_xticks(across.ticks, across.labels)
    axis.set_yticks(up.ticks, up.labels)
    axis.set(xlabel=across.name, ylabel=up.name)


def draw_slice(axis: Axes, study: optuna.Study, setting: Setting, number: int = 0) -> None:
    """Draw an objective of each trial, by its number, against one setting."""
    trials, unit = finite_trials(study), objective(study, number).unit
    heights, order = [unit * t.values[number] for t in trials], [t.number for t in trials]
    axis.scatter(
        setting.positions, heights, c=order, s=10, cmap="Greys", vmin=-len(trials), edgecolors="black", linewidths=0.3
    )
    axis.set_xticks(setting.ticks, setting.labels, rotation=35 if max(map(len, setting.labels)) > 6 else 0)
    axis.set_xlabel(setting.name.rpartition(".")[2])


def _slices(stored: Sequence[optuna.Study]) -> Picture:
    """Return a row of pictures for each objective of each study."""
    known_of = {study.study_name: settings_of(study)[:_MOST_SLICES] for study in stored}
    rows = [(study, n, known_of[study.study_name]) for study in stored for n in range(len(study.directions))]
    columns = max((len(known) for *_, known in rows), default=1) or 1
    figure, axes = panels(max(len(rows), 1), columns, PAGE, 1.9 * max(len(rows), 1))
    for row, (study, number, known) in enumerate(rows):
        mine = axes[row * columns : (row + 1) * columns]
        for axis, setting in zip(mine, known):
            draw_slice(axis, study, setting, number)
        for axis in mine[max(len(known), 1) :]:
            axis.set_visible(False)
        mine[0].set_title(title_of(study).replace("\n", " "), loc="left")
        mine[0].set_ylabel(objective(study, number).label)
        if not known:
            nothing(mine[0], "no complete trial")
    if not rows:
        nothing(axes[0], "no trials yet")
    return figure


def _scaled(setting: Setting) -> Float[np.ndarray, " trials"]:
    low, high = min(setting.ticks), max(setting.ticks)
    return (setting.positions - low) / ((high - low) or 1)


def _coloured(axis: Axes, study: optuna.Study) -> ScalarMappable | None:
    """Return the colours of the first objective, with a colour bar at an axis; None if all trials are equal."""
    first = objective(study, 0)
    values = np.array([first.unit * t.values[0] for t in finite_trials(study)])
    if len({*values}) < 2:
        return None
    colours = ScalarMappable(Normalize(values.min(), values.max()), _COLOURS)
    colours.set_array(values)
    axis.figure.colorbar(colours, ax=axis, shrink=0.7).set_label(first.label, fontsize="x-small")
    return colours
