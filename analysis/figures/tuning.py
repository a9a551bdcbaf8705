"""Figures optuna-history and optuna-importance: the trials of Optuna studies and the importance of settings.

The trials are in ``results/studies.db``, in journals of the results folder (``*.journal``), and in the database of the
published runs. Notebooks draw the same pictures.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import MaxNLocator
from optuna.trial import FrozenTrial, TrialState

from analysis.data.rows import RowKey
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots.style import GREY, PAGE, nothing, panels, percent
from bepo.core.errors import told
from bepo.runs.config import TIERS
from bepo.runs.trials_database import JOURNALS, best_trials, database_url, finite_trials, opened
from bepo.store.files import Corrupt
from bepo.store.published import TRIALS

# Every run is a separate row, because trials may differ in any setting.
TRIAL = RowKey(lambda run: run.id, varies=("",))
STUDIES = ("tune_every_axis", "tune_gated_bepo", "tune_success_and_time")
_FEW = 20  # complete trials, below which importances are not shown
_IN_A_ROW = 3  # studies
_DARK = "#333333"  # not a colour of a method
_MARKS: dict[TrialState, dict[str, Any]] = {
    TrialState.COMPLETE: {"marker": "o", "color": GREY},
    TrialState.PRUNED: {"marker": "o", "facecolors": "white", "edgecolors": GREY},
}


@artefact("optuna-history", "figure", study=STUDIES, key=TRIAL)
def history(studies: Studies) -> Figure:
    """Draw the trials."""
    stored = stored_studies(studies)
    caption = (
        f"Optuna studies of {aims(stored)} (tier {studies.tier}). One objective: trials in the order they began, and "
        f"the best so far. Two objectives: every complete trial, and the Pareto front. {counts(stored)}"
    )
    return Figure(caption, picture(stored, draw_history), studies.runs)


@artefact("optuna-importance", "figure", study=STUDIES, key=TRIAL)
def importance(studies: Studies) -> Figure:
    """Draw the importance of each setting."""
    stored = stored_studies(studies)
    enough = [s for s in stored if len(finite_trials(s)) >= _FEW]
    few = [f"{s.study_name} ({len(finite_trials(s))})" for s in stored if s not in enough]
    notes = [f"Not shown, because shares are unstable below {_FEW} complete trials: {', '.join(few)}."] if few else []
    notes += [f"{s.study_name}: PED-ANOVA, because it has conditional settings." for s in enough if conditional(s)]
    caption = f"Importance of settings (fANOVA) for {aims(stored)} (tier {studies.tier}). {counts(stored)}"
    why = f"fewer than {_FEW} complete trials" if few else "no trials yet"
    return Figure(caption, picture(enough, draw_importance, empty=why), studies.runs, notes)


def stored_studies(studies: Studies) -> list[optuna.Study]:
    """Return every Optuna study of this tier. A study whose name does not end with a tier belongs to all tiers."""
    first = next(iter(studies.values()))
    stored = {}
    for folder in first.trials:
        try:
            stored |= optuna_studies(folder)
        except Corrupt as error:
            first.skipped.append(str(error))
    others = {tier for tier in TIERS if tier != studies.tier}
    return [stored[name] for name in sorted(stored) if name.rpartition(".")[2] not in others]


def counts(stored: list[optuna.Study]) -> str:
    """Return the number of trials by state, such as ``tune.webshop.smoke: 12 complete, 3 pruned trials.``"""
    texts = []
    for study in stored:
        states = Counter(trial.state for trial in study.trials)
        numbers = (f"{states[s]} {s.name.lower()}".replace("fail", "failed") for s in TrialState if states[s])
        unusable = states[TrialState.COMPLETE] - len(finite_trials(study))
        left_out = f" ({unusable} with an infinite value, which are not shown)" if unusable else ""
        texts.append(f"{study.study_name}: {', '.join(numbers)} trials{left_out}")
    return f"{'; '.join(texts)}." if texts else "No study has a trial yet."


def aims(stored: list[optuna.Study]) -> str:
    """Return the first objective in words; that of each study where they differ."""
    names = {study.study_name: objective(study, 0).words for study in stored}
    if len({*names.values()}) <= 1:
        return next(iter(names.values()), "an objective")
    return f"the first objective of each study ({'; '.join(f'{study}: {name}' for study, name in names.items())})"


def optuna_studies(*folders: Path) -> dict[str, optuna.Study]:
    """Return the Optuna studies of some folders by name. If two have a name, the last one counts.

    Raises ``Corrupt`` if a folder's database or journal is not Optuna's.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    studies = {}
    for folder in folders:
        for file in (*sorted(folder.glob(JOURNALS)), folder / TRIALS):
            if not file.exists() or not file.stat().st_size:
                continue
            try:
                storage = opened(database_url(folder) if file.name == TRIALS else str(file))
                names = optuna.get_all_study_names(storage)
                studies |= {name: optuna.load_study(study_name=name, storage=storage) for name in names}
            except Exception as error:  # any type: Optuna's reader of a file that anybody may have written
                raise Corrupt(f"{file}: not an Optuna database ({told(error)})") from None
    return studies


def picture(
    shown: Sequence[optuna.Study],
    draw: Callable[[Axes, optuna.Study], None],
    in_a_row: int = _IN_A_ROW,
    empty: str = "no trials yet",
) -> Picture:
    """Return a figure with one axis per study. ``draw`` draws a study on an axis. ``empty``: the text without one."""
    columns = min(max(len(shown), 1), in_a_row)
    rows = -(-max(len(shown), 1) // columns)
    figure, axes = panels(rows, columns, PAGE, 2.6 * rows)
    for axis, study in zip(axes, shown):
        draw(axis, study)
        axis.set_title(title_of(study))
    for axis in axes[max(len(shown), 1) :]:
        axis.set_visible(False)
    if not shown:
        nothing(axes[0], empty)
    return figure


def title_of(study: optuna.Study) -> str:
    """Return a study's name in two lines, because names in one line would overlap."""
    return study.study_name.replace(".", "\n", 1)


def conditional(study: optuna.Study) -> list[str]:
    """Return the settings that only some complete trials have, in alphabetical order."""
    searched = [set(trial.params) for trial in finite_trials(study)]
    return sorted(set().union(*searched) - set.intersection(*searched)) if searched else []


def draw_history(axis: Axes, study: optuna.Study) -> None:
    """Draw trials in order and the best so far; with two objectives the Pareto front."""
    if not finite_trials(study):
        nothing(axis, "no complete trial")
    elif len(study.directions) > 1:
        _draw_front(axis, study)
    else:
        _draw_sequence(axis, study)


def evaluator(study: optuna.Study) -> optuna.importance.BaseImportanceEvaluator:
    """Return fANOVA (Hutter et al., 2014): how much of the objective's variance each setting explains.

    fANOVA needs every setting in every trial. With conditional settings it is PED-ANOVA (Watanabe et al., 2023): it
    compares the settings of the best tenth of the trials with those of all trials.
    """
    if conditional(study):
        return optuna.importance.PedAnovaImportanceEvaluator()
    return optuna.importance.FanovaImportanceEvaluator(seed=0)


def draw_importance(axis: Axes, study: optuna.Study) -> None:
    """Draw the importance of each setting for the first objective."""
    axis.set_xlabel("Share of variance (%)")
    shares = importances(study)
    if not shares:
        nothing(axis, "no two complete trials that differ")
        return
    names = list(reversed(shares))
    axis.barh(names, [100 * shares[n] for n in names], color=_DARK)
    axis.grid(axis="y", visible=False)


def importances(study: optuna.Study) -> dict[str, float]:
    """Return the importance of each setting for the first objective; empty if no two complete trials differ."""
    done = finite_trials(study)
    if min(len({repr(t.params) for t in done}), len({t.values[0] for t in done})) < 2:
        return {}
    with catch_warnings():
        simplefilter("ignore")  # few trials of a condition: the notes say how many trials there are
        shares = optuna.importance.get_param_importances(
            study, evaluator=evaluator(study), target=lambda t: t.values[0]
        )
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))  # a fixed order for equal shares


def _draw_sequence(axis: Axes, study: optuna.Study) -> None:
    first, done = objective(study, 0), finite_trials(study)
    unit = first.unit
    for state, mark in _MARKS.items():
        values = [(t.number, t.value) for t in study.trials if t.state == state]
        points = [(number, unit * value) for number, value in values if value is not None and math.isfinite(value)]
        if points:
            axis.scatter(*zip(*points), s=14, zorder=2, label=state.name.lower(), **mark)
    larger = study.direction == optuna.study.StudyDirection.MAXIMIZE
    best = (np.maximum if larger else np.minimum).accumulate([unit * t.values[0] for t in done])
    axis.step([t.number for t in done], best, where="post", color=_DARK, linewidth=1, label="best so far")
    _finish(axis, first.label, "Trial")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_front(axis: Axes, study: optuna.Study) -> None:
    """Draw the first objective against the second."""
    first, second = objective(study, 0), objective(study, 1)

    def points(trials: Sequence[FrozenTrial]) -> tuple[list[float], list[float]]:
        return [second.unit * t.values[1] for t in trials], [first.unit * t.values[0] for t in trials]

    front = sorted(best_trials(study), key=lambda t: t.values[1])
    axis.scatter(*points(finite_trials(study)), s=14, color=GREY, label="trial")
    axis.step(*points(front), where="post", color=_DARK, marker="o", markersize=4, linewidth=1, label="front")
    _finish(axis, first.label, second.label)


class Objective(NamedTuple):
    """An objective of a study in pictures."""

    words: str  # its name, such as "validation success" or "train/return"
    unit: int  # the factor of its values: 100 for a success rate, which is shown in per cent

    @property
    def label(self) -> str:
        """The label of an axis."""
        return self.words[:1].upper() + self.words[1:] + " (%)" * (self.unit == 100)


def objective(study: optuna.Study, number: int) -> Objective:
    """Return an objective of a study by its number."""
    name = study.user_attrs.get("objectives", ["first objective", "second objective"])[number]
    return Objective(name if "/" in name else name.replace("_", " "), 100 if name.endswith("success") else 1)


def _finish(axis: Axes, up: str, across: str) -> None:
    axis.set(xlabel=across, ylabel=up)
    if up.endswith("(%)"):
        percent(axis)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4)
