"""Figures optuna-history and optuna-importance: what an Optuna study tried, and which settings mattered."""

from __future__ import annotations

import optuna

from analysis import trials
from analysis.artefact import Figure, artefact
from analysis.runs import Key, Study, records
from analysis.style import PAGE, nothing, panels
from bepo.record import CorruptRecord

# Every run is a row of its own: trials differ in whatever they try.
TRIAL = Key(lambda run: run.id, varies=("",))
STUDIES = ("tune_gated_bepo", "tune_success_and_time")
_FEW = 30


@artefact("optuna-history", "figure", study=STUDIES, key=TRIAL)
def history(studies: dict[str, Study]) -> Figure:
    found, scale = _stored(studies)
    caption = (
        f"Optuna studies (tier {scale}). One objective: trials in the order they began, and the best so far; two: "
        f"every complete trial, and the front that no other trial beats in both. {_counts(found)}"
    )
    return Figure(caption, _drawn(found, trials.draw_history), records(studies.values()))


@artefact("optuna-importance", "figure", study=STUDIES, key=TRIAL)
def importance(studies: dict[str, Study]) -> Figure:
    found, scale = _stored(studies)
    few = [(s.study_name, len(trials.complete(s))) for s in found if len(trials.complete(s)) < _FEW]
    notes = [f"{name}: {n} complete trials; shares are unstable below some tens of them." for name, n in few]
    caption = f"fANOVA importance of settings for validation success (tier {scale}). {_counts(found)}"
    return Figure(caption, _drawn(found, trials.draw_importance), records(studies.values()), notes)


def _stored(studies: dict[str, Study]) -> tuple[list[optuna.Study], str]:
    """The Optuna studies of this tier, of whatever environments; and the tier."""
    scale = next(iter(studies.values())).scale
    results = next(iter(studies.values())).results
    try:
        stored = trials.studies(results) if results else {}
    except CorruptRecord as error:
        stored = {}
        next(iter(studies.values())).skipped.append(str(error))
    named = [(name, *name.split(".")) for name in sorted(stored)]
    return [stored[name] for name, *parts in named if parts[0] in studies and parts[-1] == scale], scale


def _drawn(found: list[optuna.Study], draw) -> object:
    figure, axes = panels(1, max(len(found), 1), PAGE, 2.4)
    for axis, study in zip(axes, found):
        draw(axis, study)
        axis.set_title(study.study_name)
    if not found:
        nothing(axes[0], "no trials yet")
    return figure


def _counts(found: list[optuna.Study]) -> str:
    return (
        "; ".join(f"{s.study_name}: {trials.counts(s)}" for s in found) + "." if found else "No study has a trial yet."
    )
