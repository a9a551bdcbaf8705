"""Success over updates: all methods, pairs of methods, and aliased observations."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from analysis.data.methods import is_privileged, name_of, ordered
from analysis.data.rows import OBSERVATIONS
from analysis.data.runs import Run
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import style

_SMOOTH = 5  # updates in the running mean of training success
TEST, VALIDATION = ("training", "test"), ("training", "validation")
"""The curves of a figure. The paper labels some of them test (tasks like those of training), some validation."""
_TITLES = {"training": "Training", "test": "Test tasks", "validation": "Validation tasks"}


@artefact("alfworld-success-curves", "figure", study="main_alfworld")
def alfworld_success(study: StudyRuns) -> Figure:
    """Draw all methods with the small model."""
    small = study.only(lambda run: run.model == "small")
    return _curves(small, "ALFWorld training success, small model", ("training",))


@artefact("alfworld-aliasing-curves", "figure", study="observation_aliasing", key=OBSERVATIONS)
def alfworld_aliasing(study: StudyRuns) -> Figure:
    """Draw Gated-BEPO and GraphGPO on raw and on augmented observations."""
    return _curves(study, "ALFWorld success on raw observations and on GraphGPO's augmented ones (dashed)")


@artefact("sokoban-success-curves", "figure", study="main_sokoban")
def sokoban_success(study: StudyRuns) -> Figure:
    """Draw all methods on pictures; on text if no run has pictures."""
    models = sorted({run.model for run in study.runs})
    pictures = "vl" in models or not models
    model = "vl" if pictures else models[0]
    return _curves(study.only(lambda run: run.model == model), f"Sokoban success{'' if pictures else ', text'}")


@artefact("sokoban-text-curves", "figure", study="main_sokoban_text")
def sokoban_text(study: StudyRuns) -> Figure:
    """Draw all methods and the oracle on boards as text."""
    return _curves(study, "Extension: Sokoban success, boards as text")


def alfworld_pair(study: StudyRuns, model: str) -> Figure:
    """Draw Gated-BEPO and HGPO with one model on the validation tasks, as the paper labels these curves."""
    pair = study.only(lambda run: run.model == model and run.method in ("gated_bepo", "hgpo"))
    return _curves(pair, f"ALFWorld success of Gated-BEPO and HGPO, {model} model", VALIDATION)


artefact("supp-alfworld-1p5b-validation-curves", "figure", "main_alfworld")(partial(alfworld_pair, model="small"))
artefact("supp-alfworld-7b-curves", "figure", "main_alfworld")(partial(alfworld_pair, model="large"))


def _curves(study: StudyRuns, subject: str, splits: Sequence[str] = TEST) -> Figure:
    wide = len(splits) > 1
    figure, axes = style.panels(1, len(splits), style.PAGE * 0.75 if wide else style.COLUMN, 2.2, sharey=True)
    place = ordered({row.split()[0] for row in study.rows})  # the paper's order, raw before augmented
    rows = sorted(study.rows, key=lambda row: (place.index(row.split()[0]), "augmented" in row))
    for axis, split in zip(axes, splits):
        title = _TITLES[split] + _scenes(study.runs, split)
        style.over_updates(axis, "Success rate (%)" if axis is axes[0] else "", title if wide else "")
        if not study.runs:
            style.nothing(axis)
        for row in rows:
            line = {
                "label": _label(row),
                "linestyle": "--" if "augmented" in row or is_privileged(row.split()[0]) else "-",
            }
            line |= {} if split == "training" else {"marker": "o", "markersize": 2}
            style.band(
                axis, 100 * _success(study.rows[row], split), style.method_colour(row.split()[0]), 0, 100, **line
            )
    lines = [line for axis in axes for line in axis.lines]
    if lines:
        style.percent(axes[0])
    style.name_all(figure, axes, columns=4 if wide else 3)
    if wide:
        style.letters(axes)
    note = f" Training: running mean of {_SMOOTH} updates." if study.runs else ""
    if lines and not any(np.any(line.get_ydata()) for line in lines):
        note += " No episode succeeded, so all curves are at zero."
    caption = f"{subject} (tier {study.tier}). {style.bands_note({_label(row): study.rows[row] for row in rows})}{note}"
    return Figure(caption, figure, study.runs, style.unlogged(study.runs, ["train/success"]))


def _label(row: str) -> str:
    method, *variant = row.split()
    return " ".join([name_of(method), *(f"({v})" for v in variant if v not in ("raw", "None"))])


def _scenes(runs: Sequence[Run], split: str) -> str:
    """Return whether the scenes of an ALFWorld split are those of training, as the end of a title."""
    tests = {run["env.test_split"] for run in runs} - {None}
    if split == "training" or len(tests) != 1:
        return ""
    return ", scenes of training" if (tests == {"valid_seen"}) == (split == "test") else ", unseen scenes"


def _success(runs: list[Run], split: str) -> pd.DataFrame:
    """Return (updates, training seeds): the running mean of rollouts, or the mean of test or validation episodes."""
    if split == "training":
        return pd.DataFrame(style.by_seed(runs, "train/success").rolling(_SMOOTH, min_periods=1).mean())
    return style.by_seed(runs, "success", split)
