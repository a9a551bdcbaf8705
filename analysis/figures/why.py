"""Figure why: what decides which estimator learns fast, in each environment."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.claims.blocks import IN_BLOCKS, measured_by_env, runs_in_blocks
from analysis.claims.declared import FIRST_SIX
from analysis.claims.looks import speed
from analysis.contrast import Contrast
from analysis.data.lab import RECORDED
from analysis.data.methods import environment_name, is_privileged, name_of, row_label
from analysis.data.rows import BASELINE, ROW_IN_BLOCKS
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import style
from analysis.plots.hover import describe

ENVIRONMENTS = ("webshop", "alfworld", "sokoban")
BASELINES = {"group": "the group's others", "batch": "the batch", "between": "both, weighted best"}
"""The means that serve as baseline in (a), with their names in the legend."""
OF_STATES = ("shrunk_bepo", "crbc", "graphgpo", "g2po", "graphhca", "graft")
"""Estimators whose values are those of states that several trajectories share, with no gate."""
_VISITS = "credit/visits_per_state"
_NAMED = {"crbc": "left", "shrunk_bepo": "left"} | dict.fromkeys((BASELINE, "graphgpo", "graft"), "right")
"""The rows whose dots in (b) have a name, and which side of it is at the dot."""


@artefact("why", "figure", study=IN_BLOCKS, key=ROW_IN_BLOCKS)
def why(studies: Studies) -> Figure:
    """Draw the noise of baselines, revisits and speed on ALFWorld, and success on two environments."""
    runs = [run for run in runs_in_blocks(studies) if run.seed in FIRST_SIX]
    figure, axes = style.panels(1, 3, style.PAGE, 2.6)
    _baselines(axes[0])
    _revisits(axes[1], [run for run in runs if run.env == "alfworld"])
    _speeds(axes[2], {env: frames["speed"] for env, frames in measured_by_env(runs).items()})
    style.letters(axes)
    caption = (
        "What decides which estimator learns fast. (a) The variance of an episode's success around its baseline, as a "
        "share of its variance in the batch, computed from group size and between-task share of the variance (ICC; "
        "mean of paper/lab/dials.csv): the mean of the group's others, the batch's mean, and the best mean of both. On "
        f"{environment_name('webshop')} groups are pairs. (b) {environment_name('alfworld')}: visits of a state in a "
        "group and success in training, each over all updates, by estimator without a critic. (c) Success in training "
        f"minus {name_of(BASELINE)}'s for estimators with values of shared states: in {environment_name('sokoban')} a "
        f"state is all there is to know, on {environment_name('alfworld')} states look alike. (b, c) Mean over blocks "
        f"{FIRST_SIX[0]} to {FIRST_SIX[-1]} (tier {studies.tier}), in (c) with Student's 95 % interval; exploratory."
    )
    return Figure(caption, figure, runs)


def around_baseline(group_size: float, icc: float) -> dict[str, float]:
    """Return the variance of R - b as a share of that of R, for each baseline b of an episode with return R.

    ``group``: the mean of the group's others; ``batch``: the batch's mean; ``between``: the best mean of these two.
    The batch is large.
    """
    others, within = group_size - 1, 1 - icc
    shrinkage = others * icc / (others * icc + within)
    return {
        "group": within * (1 + 1 / others),
        "batch": 1.0,
        "between": within + icc * (1 - shrinkage) ** 2 + shrinkage**2 * within / others,
    }


def _baselines(axis: Axes) -> None:
    rows = pd.read_csv(RECORDED / "dials.csv")
    of_env = {env: rows.loc[rows["estimator"] == env, ["group_size", "icc"]] for env in ENVIRONMENTS}
    dials = {env: columns.to_numpy(float).mean(0) for env, columns in of_env.items()}  # group size and ICC
    width = 0.8 / len(BASELINES)
    for number, (name, shade) in enumerate(zip(BASELINES, style.variant_colours(BASELINE, len(BASELINES)))):
        values = [around_baseline(*dials[env])[name] for env in ENVIRONMENTS]
        places = np.arange(len(ENVIRONMENTS)) + (number - 1) * width
        axis.bar(places, values, width * 0.9, color=shade, label=BASELINES[name])
    names = [f"{environment_name(env)}\nK = {dials[env][0]:.0f}" for env in ENVIRONMENTS]
    axis.set_xticks(range(len(ENVIRONMENTS)), names)
    axis.set(title="Noise of the baseline", ylabel="Variance around the baseline (share)")
    axis.legend(title="baseline: mean of", fontsize="small", title_fontsize="small")


def _revisits(axis: Axes, runs: Sequence[Run]) -> None:
    rows = grouped(runs, lambda run: str(ROW_IN_BLOCKS.row(run)))
    blocks = {row: same for row, same in rows.items() if {run.seed for run in same} == set(FIRST_SIX)}
    for row, same in blocks.items():
        if is_privileged(row) or any(run["rollout.grouped"] is False for run in same):
            continue
        visits = float(np.mean([run.mean(_VISITS) for run in same]))
        success = float(np.mean([speed(run) for run in same]))
        (dot,) = axis.plot([visits], [success], "o", color=style.method_colour(row.split()[0]), markersize=4)
        describe(dot, [f"{row_label(row)}: {visits:.1f} visits, {success:.1f} %"])
        if side := _NAMED.get(row):
            near = (4 if side == "left" else -4, 3)
            axis.annotate(
                row_label(row), (visits, success), near, textcoords="offset points", fontsize="x-small", ha=side
            )
    axis.set(
        title=f"Loops on {environment_name('alfworld')}",
        xlabel="Visits of a state in a group",
        ylabel="Success in training (%)",
    )
    style.if_empty(axis, runs)


def _speeds(axis: Axes, speeds: Mapping[str, pd.DataFrame]) -> None:
    shown = [row for row in OF_STATES if all(row in speeds.get(env, ()) for env in ("alfworld", "sokoban"))]
    for env, shift in (("sokoban", -0.15), ("alfworld", 0.15)):
        for place, row in enumerate(shown):
            gap = Contrast.of(speeds[env], {row: 1, BASELINE: -1})
            line = style.environment_line(env)
            axis.plot((gap.interval.low, gap.interval.high), [place + shift] * 2, color=line["color"], linewidth=1)
            label = environment_name(env) if place == 0 else None
            (dot,) = axis.plot([gap.value], [place + shift], "o", color=line["color"], markersize=3.5, label=label)
            describe(dot, [f"{row_label(row)}, {environment_name(env)}: {gap.text()}"])
    axis.axvline(0, color="black", linewidth=0.6)
    axis.set_yticks(range(len(shown)), [row_label(row) for row in shown])
    axis.invert_yaxis()
    axis.set(title="Values of shared states", xlabel=f"Points over {name_of(BASELINE)}")
    if shown:
        axis.legend(fontsize="small")
    else:
        style.nothing(axis)
