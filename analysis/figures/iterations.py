"""Figure ablation-diagnostics: what a Bellman sweep still changes, and what success comes of each budget."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.artefact import Figure, artefact
from analysis.methods import COLOURS
from analysis.parts import Metric
from analysis.runs import Run, Study, settings
from analysis.stats import estimate
from analysis.style import COLUMN, GREY, letters, nothing, panels, percent

_SUCCESS = Metric("success", "Success")


@artefact("ablation-diagnostics", "figure", study="iteration_budget", key=settings("iterations"))
def iteration_budget(study: Study) -> Figure:
    figure, (change, success) = panels(1, 2, COLUMN, 1.75)
    change.set_title("Advantage change")
    change.set_ylabel("Max |ΔA| by the last sweep")
    success.set_title("Success rate")
    success.set_ylabel("Success rate (%)")
    study = study.where(env__name="webshop", model="small")
    study = study.only(lambda run: run["iterations"] is not None and run["solver"] != "exact")
    rows = {
        budget: study.rows[f"iterations={budget}"] for budget in sorted({run["iterations"] for run in study.records})
    }
    _change(change, {budget: runs for budget, runs in rows.items() if budget > 0})
    note = _success(success, rows)
    for axis in (change, success):
        axis.set_xlabel("Bellman sweeps")
    letters((change, success))
    caption = (
        f"Bellman sweeps on WebShop (tier {study.scale}). (a) Largest change of a standardised step advantage by the "
        "last sweep of each budget, mean over updates; grey: by those sweeps of the runs with the largest budget. "
        f"(b) {note}"
    )
    return Figure(caption, figure, study.records)


def _change(axis: Axes, rows: dict[int, list[Run]]) -> None:
    found = {b: _mean(runs, b) for b, runs in rows.items()}
    found = {b: value for b, value in found.items() if value}
    if not found:
        nothing(axis, "no advantage changed" if rows else "not run")  # a logarithm has no zero
        return
    largest = rows[max(found)]
    within = {b: _mean(largest, b) for b in found}
    axis.plot(list(within), list(within.values()), color=GREY, linewidth=0.9, linestyle="--", marker=".")
    axis.plot(list(found), list(found.values()), color=COLOURS["gated_bepo"], marker="o", markersize=3)
    axis.set_yscale("log")
    axis.set_xticks([0, 5, 10, 20])


def _mean(runs: list[Run], sweep: int) -> float:
    """Over updates and runs; 0 where it was not logged, because nothing changed any more."""
    name = f"credit/delta_advantage_{sweep}"
    return float(np.mean([run.metrics[name].mean() if name in run.metrics else 0.0 for run in runs]))


def _success(axis: Axes, rows: dict[int, list[Run]]) -> str:
    """Budgets side by side, unevenly spaced as they are; returns what the bars are."""
    if not rows:
        nothing(axis)
        return "Not run."
    found = [estimate(_SUCCESS.sample(runs), "evaluation") for runs in rows.values()]
    place = np.arange(len(found))
    error = np.nan_to_num([e.std for e in found])
    axis.errorbar(
        place, [e.mean for e in found], error, color=COLOURS["gated_bepo"], marker="o", markersize=3, capsize=2
    )
    axis.set_xticks(place, [str(b) for b in rows])
    percent(axis)
    n, level = found[0].n, found[0].level
    return f"Final success; bars: one sample standard deviation over n = {n} {level} seeds."
