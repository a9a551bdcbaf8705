"""Figure ablation-diagnostics: the advantage change and the success for each budget of Bellman sweeps."""

import numpy as np
from matplotlib.axes import Axes

from analysis.data.rows import settings
from analysis.data.runs import Run
from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.parts import Metric
from analysis.grid.table import Figure
from analysis.plots import style
from analysis.plots.hover import describe

_SUCCESS = Metric("success", "Success")


@artefact("ablation-diagnostics", "figure", study="iteration_budget", key=settings("iterations"))
def iteration_budget(study: StudyRuns) -> Figure:
    """Draw the change of advantages and the final success against the budget of sweeps."""
    figure, (change, success) = style.panels(1, 2, style.COLUMN, 1.75)
    change.set(title="Advantage change", xlabel="Bellman sweeps", ylabel="Max |ΔA| by the last sweep")
    success.set(title="Success rate", xlabel="Bellman sweeps", ylabel="Success rate (%)")
    study = study.only(lambda run: run.env == "webshop" and run.model == "small")
    study = study.only(lambda run: run["iterations"] is not None and run["solver"] != "exact")
    rows = {b: study.rows[f"iterations={b}"] for b in sorted({run["iterations"] for run in study.runs})}
    _draw_change(change, {budget: runs for budget, runs in rows.items() if budget > 0})
    note = _draw_success(success, rows)
    style.legend_above(figure, change.lines, columns=2)
    style.letters((change, success))
    caption = (
        f"Bellman sweeps on WebShop (tier {study.tier}). (a) Largest change of a standardised step advantage in the "
        "last sweep of each budget, mean over updates. Squares: the same sweeps in the runs with the largest budget. "
        f"(b) {note}"
    )
    return Figure(caption, figure, study.runs)


def _draw_change(axis: Axes, rows: dict[int, list[Run]]) -> None:
    changes = {budget: value for budget, runs in rows.items() if (value := _mean_change(runs, budget))}
    if not changes:
        style.nothing(axis, "no advantage changed" if rows else "not run")  # zero has no logarithm
        return
    colour, within = style.method_colour("gated_bepo"), [_mean_change(rows[max(changes)], b) for b in changes]
    axis.plot(
        list(changes), list(changes.values()), color=colour, marker="o", markersize=3, label="runs of each budget"
    )
    # Hollow squares around the dots, because both lines may coincide.
    reference = {"color": "black", "linewidth": 0.7, "linestyle": ":", "marker": "s", "markersize": 5.5}
    reference |= {"markerfacecolor": "none", "markeredgewidth": 0.7, "label": f"runs of {max(changes)} sweeps"}
    axis.plot(list(changes), within, zorder=3, **reference)
    axis.set(yscale="log", xticks=[0, 5, 10, 20])


def _mean_change(runs: list[Run], sweep: int) -> float:
    """Return the mean over updates and runs. A value that was not logged counts as 0: nothing changed any more."""
    name = f"credit/delta_advantage_{sweep}"
    return float(np.mean([run.mean(name) if name in run.metrics else 0.0 for run in runs]))


def _draw_success(axis: Axes, rows: dict[int, list[Run]]) -> str:
    """Draw the success of each budget. Return the sentence of the caption."""
    if not rows:
        style.nothing(axis)
        return "Not run."
    estimates = {str(b): e for b, runs in rows.items() if (e := _SUCCESS.estimate(runs, "evaluation"))}
    means, errors = [e.mean for e in estimates.values()], [np.nan_to_num(e.std) for e in estimates.values()]
    colour, first = style.method_colour("gated_bepo"), next(iter(estimates.values()))
    bars = axis.errorbar(list(estimates), means, errors, color=colour, marker="o", markersize=3, capsize=2)
    describe(bars[0], [f"{budget} sweeps: {m:.4g} ± {s:.2g}" for budget, m, s in zip(estimates, means, errors)])
    style.percent(axis)
    return f"Final success. Bars: one sample standard deviation over n = {first.n} {first.level} seeds."
