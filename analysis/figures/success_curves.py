"""Success against updates: of all methods, of pairs, and on aliased observations."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes

from analysis.artefact import Figure, artefact
from analysis.methods import COLOURS, name_of, ordered
from analysis.runs import Key, Study
from analysis.style import (
    COLUMN,
    PAGE,
    SMOOTH,
    band,
    bands_note,
    by_seed,
    legend_above,
    letters,
    nothing,
    over_updates,
    panels,
    percent,
    seeds,
    smoothed,
    unlogged,
)

_TITLES = {"training": "Training", "validation": "Validation tasks"}
# GraphGPO's own protocol differs from the matched one in the environment.
ALIASING = Key(lambda run: f"{run.method} {run['env.graph_key']}", ("env.graph_key", "env.prompt_state"))


@artefact("alfworld-success-curves", "figure", study="main_alfworld")
def alfworld_success(study: Study) -> Figure:
    return _curves(study.where(model="small"), "ALFWorld training success, small model", ("training",))


@artefact("supp-alfworld-1p5b-validation-curves", "figure", study="main_alfworld")
def alfworld_small(study: Study) -> Figure:
    return _curves(_pair(study, "small"), "ALFWorld success of Gated-BEPO and HGPO, small model")


@artefact("supp-alfworld-7b-curves", "figure", study="main_alfworld")
def alfworld_large(study: Study) -> Figure:
    return _curves(_pair(study, "large"), "ALFWorld success of Gated-BEPO and HGPO, large model")


@artefact("alfworld-aliasing-curves", "figure", study="observation_aliasing", key=ALIASING)
def alfworld_aliasing(study: Study) -> Figure:
    return _curves(study, "ALFWorld success on raw observations and on GraphGPO's augmented ones (dashed)")


@artefact("sokoban-success-curves", "figure", study="main_sokoban")
def sokoban_success(study: Study) -> Figure:
    models = sorted({run.model for run in study.records})
    shown = study.where(model="vl" if "vl" in models or not models else models[0])
    return _curves(shown, f"Sokoban success{', text' if models and 'vl' not in models else ''}")


def _pair(study: Study, model: str) -> Study:
    return study.where(model=model).only(lambda run: run.method in ("gated_bepo", "hgpo"))


def _curves(study: Study, what: str, splits: Sequence[str] = tuple(_TITLES)) -> Figure:
    wide = len(splits) > 1
    figure, axes = panels(1, len(splits), PAGE * 0.75 if wide else COLUMN, 2.2, sharey=True)
    for axis, split in zip(axes, splits):
        over_updates(axis, "Success rate (%)" if axis is axes[0] else "", _TITLES[split] if wide else "")
        if not study.records:
            nothing(axis)
        for row in _rows(study):
            _curve(axis, study, row, split)
    lines = [line for axis in axes for line in axis.lines]
    if lines:
        percent(axes[0])
    legend_above(figure, max((axis.lines for axis in axes), key=len), columns=4 if wide else 3)
    if wide:
        letters(axes)
    counts = {_label(row): seeds(study.rows[row]) for row in _rows(study)}
    note = f" Training: running mean of {SMOOTH} updates." if study.records else ""
    if lines and not any(line.get_ydata().any() for line in lines):
        note += " No episode succeeded: all curves are at zero."
    caption = f"{what} (tier {study.scale}). {bands_note(counts)}{note}"
    return Figure(caption, figure, study.records, unlogged([study], ["train/success"]))


def _rows(study: Study) -> list[str]:
    """Methods in the paper's order, raw before augmented."""
    place = ordered({row.split()[0] for row in study.rows})
    return sorted(study.rows, key=lambda row: (place.index(row.split()[0]), "augmented" in row))


def _label(row: str) -> str:
    method, *variant = row.split()
    return " ".join([name_of(method), *(f"({v})" for v in variant if v not in ("raw", "None"))])


def _curve(axis: Axes, study: Study, row: str, split: str) -> None:
    method = row.split()[0]
    line = {"label": _label(row), "linestyle": "--" if "augmented" in row else "-"}
    if split == "training":
        frame = study.metrics[study.metrics["row"] == row]
        band(axis, 100 * smoothed(by_seed(frame, "train/success")), _colour(method), **line)
    else:
        band(axis, 100 * _validation(study, row), _colour(method), marker="o", markersize=2, **line)


def _validation(study: Study, row: str) -> pd.DataFrame:
    frame = study.episodes
    frame = frame[(frame["row"] == row) & (frame["split"] == "validation")]
    return by_seed(frame.assign(success=frame["success"].astype(float)), "success")


def _colour(method: str) -> str:
    return COLOURS.get(method, "black")
