"""Studies as they stand: grids by their cells, Optuna studies by their trials (``results/studies.db``)."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
from matplotlib.ticker import MaxNLocator
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from analysis.sources import Source
from analysis.style import COLUMN, GREY, nothing, panels, percent
from bepo import record

_DARK = "#333333"  # a trial is no method, and has none of their colours
_MARKS = {
    TrialState.COMPLETE: {"marker": "o", "color": GREY},
    TrialState.PRUNED: {"marker": "o", "facecolors": "white", "edgecolors": GREY},
}
_PERCENT = ("validation_success",)  # shares, shown in per cent


def cells(results: Path) -> pd.DataFrame:
    """A row a cell of every grid: study, tier, overrides, run, and its success, or why there is none."""
    source, rows = Source(results), []
    for path in sorted((results / "studies").glob("*/*/*.json")):
        study, scale = path.parts[-3:-1]
        try:
            cell = record.read_cell(path)
            run = source.run(cell["run_id"])
        except record.CorruptRecord as error:
            run, cell = str(error), {"overrides": []}
        state = run if isinstance(run, str) else "complete"
        success = None if isinstance(run, str) else run.passes().values.mean()
        overrides = " ".join(cell["overrides"])
        rows.append({"study": study, "tier": scale, "cell": overrides, "success": success, "state": state})
    return pd.DataFrame(rows, columns=["study", "tier", "cell", "success", "state"])


def studies(results: Path) -> dict[str, optuna.Study]:
    """Optuna studies by name; none without ``studies.db``. Raises ``CorruptRecord`` if that is something else."""
    file = results / "studies.db"
    if not file.exists() or not file.stat().st_size:
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = f"sqlite:///{file}"
    try:
        names = optuna.get_all_study_names(storage)
        return {name: optuna.load_study(study_name=name, storage=storage) for name in names}
    except (SQLAlchemyError, RuntimeError) as error:
        raise record.CorruptRecord(f"{file}: not an Optuna database ({str(error).splitlines()[0]})") from None


def trials(study: optuna.Study) -> pd.DataFrame:
    """A row a trial: number, state, objectives, parameters."""
    rows = []
    for trial in study.trials:
        values = {f"objective {i}": v for i, v in enumerate(trial.values or [])}
        rows.append({"trial": trial.number, "state": trial.state.name.lower()} | values | trial.params)
    return pd.DataFrame(rows)


def history(study: optuna.Study) -> plt.Figure:
    """Trials in their order and the best so far; with two objectives, the front."""
    figure, (axis,) = panels(1, 1, COLUMN, 2.0)
    draw_history(axis, study)
    return figure


def importance(study: optuna.Study) -> plt.Figure:
    """How much of the first objective's variance each setting explains."""
    figure, (axis,) = panels(1, 1, COLUMN, 2.0)
    draw_importance(axis, study)
    return figure


def draw_history(axis: plt.Axes, study: optuna.Study) -> None:
    if not complete(study):
        nothing(axis, "no complete trial")
    elif len(study.directions) > 1:
        _front(axis, study)
    else:
        _sequence(axis, study)


def draw_importance(axis: plt.Axes, study: optuna.Study) -> None:
    """fANOVA (Hutter et al., 2014), for the first objective."""
    axis.set_xlabel("Share of the variance explained (%)")
    done = complete(study)
    if min(len({repr(t.params) for t in done}), len({t.values[0] for t in done})) < 2:
        nothing(axis, "no two complete trials that differ")
        return
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator, target=lambda t: t.values[0])
    names = list(reversed(shares))
    axis.barh(names, [100 * shares[n] for n in names], color=_DARK)
    axis.grid(axis="y", visible=False)


def complete(study: optuna.Study) -> list[FrozenTrial]:
    return [t for t in study.trials if t.state == TrialState.COMPLETE]


def counts(study: optuna.Study) -> str:
    """``12 complete, 3 pruned trials``."""
    found = {state: sum(t.state == state for t in study.trials) for state in TrialState}
    words = {TrialState.FAIL: "failed"}
    return ", ".join(f"{n} {words.get(s, s.name.lower())}" for s, n in found.items() if n) + " trials"


def _sequence(axis: plt.Axes, study: optuna.Study) -> None:
    percent = 100 if _objectives(study)[0] in _PERCENT else 1
    for state, mark in _MARKS.items():
        shown = [t for t in study.trials if t.state == state and t.value is not None]
        if shown:
            numbers, values = [t.number for t in shown], [percent * t.value for t in shown]
            axis.scatter(numbers, values, s=14, zorder=2, label=state.name.lower(), **mark)
    values = np.array([percent * t.value for t in complete(study)])
    larger = study.direction == optuna.study.StudyDirection.MAXIMIZE
    best = np.maximum.accumulate(values) if larger else np.minimum.accumulate(values)
    axis.step([t.number for t in complete(study)], best, where="post", color=_DARK, linewidth=1, label="best so far")
    axis.set_xlabel("Trial")
    _finish(axis, _objectives(study)[0])
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _front(axis: plt.Axes, study: optuna.Study) -> None:
    """The first objective against the second."""
    first, second = _objectives(study)[:2]
    up, across = (100 if name in _PERCENT else 1 for name in (first, second))
    front = sorted(study.best_trials, key=lambda t: t.values[1])
    axis.scatter(
        [across * t.values[1] for t in complete(study)],
        [up * t.values[0] for t in complete(study)],
        s=14,
        color=GREY,
        label="trial",
    )
    axis.step(
        [across * t.values[1] for t in front],
        [up * t.values[0] for t in front],
        where="post",
        color=_DARK,
        marker="o",
        markersize=4,
        linewidth=1,
        label="front",
    )
    axis.set_xlabel(_word(second))
    _finish(axis, first)


def _finish(axis: plt.Axes, objective: str) -> None:
    axis.set_ylabel(_word(objective))
    if objective in _PERCENT:
        percent(axis)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4)


def _objectives(study: optuna.Study) -> list[str]:
    return study.user_attrs.get("objectives", ["first objective", "second objective"])


def _word(objective: str) -> str:
    words = objective.replace("_", " ").capitalize()
    return f"{words} (%)" if objective in _PERCENT else words
