"""Figure supp-runtime: where the seconds of an update go."""

from __future__ import annotations

import pandas as pd

from analysis.artefact import Figure, artefact
from analysis.methods import COLOURS
from analysis.runs import Study
from analysis.style import COLUMN, counted, nothing, panels, seeds, unlogged

_STAGES = {
    "rollout": "Rollout",
    "old_logprob": "Old log-probabilities",
    "reference": "Reference log-probabilities",
    "values": "Critic's values",
    "credit": "Gated-BEPO advantages",
    "update": "Policy update",
    "evaluation": "Evaluation (when due)",
}
_SHARED = "#B0B0B0"


@artefact("supp-runtime", "figure", study="runtime")
def runtime(study: Study) -> Figure:
    figure, (axis,) = panels(1, 1, COLUMN, 1.9)
    axis.set_xlabel("Seconds an update")
    seconds = _seconds(study)
    if "credit" not in seconds.index:
        nothing(axis)
        return Figure(f"ALFWorld seconds an update by stage (tier {study.scale}). Not run.", figure)
    mean, std = seconds.mean(axis=1), seconds.std(axis=1, ddof=1).fillna(0)
    colours = [COLOURS["gated_bepo"] if stage == "credit" else _SHARED for stage in seconds.index]
    axis.barh(range(len(mean)), mean, xerr=std, color=colours, height=0.65, error_kw={"linewidth": 0.8, "capsize": 2})
    axis.set_yticks(range(len(mean)), [_STAGES[stage] for stage in seconds.index])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    smallest = 10 ** int(f"{mean[mean > 0].min():e}".split("e")[1])
    axis.set_xscale("symlog", linthresh=smallest)
    axis.set_xlim(0, 6 * (mean + std).max())
    for place, value in enumerate(mean):
        axis.text(value + std.iloc[place], place, f"  {_short(value)}", va="center", fontsize=6.5)
    share = 100 * mean["credit"] / mean.drop("evaluation", errors="ignore").sum()
    n = counted({"": seeds(study.records)})
    caption = (
        f"ALFWorld seconds an update by stage on a symmetric-log scale (tier {study.scale}); colour: Gated-BEPO's "
        f"advantages with all diagnostics, {_short(mean['credit'])} s or {share:.2g} % of an update. Mean over "
        f"updates, then over {n}; bars: one sample standard deviation over training seeds."
    )
    return Figure(caption, figure, study.records, unlogged([study], ["time/rollout", "time/credit", "time/update"]))


def _seconds(study: Study) -> pd.DataFrame:
    """(stages, training seeds): mean over the updates that have the stage."""
    if not study.records:
        return pd.DataFrame()
    columns = {stage: f"time/{stage}" for stage in _STAGES if f"time/{stage}" in study.metrics}
    table = study.metrics.groupby("seed")[list(columns.values())].mean().T
    return table.set_axis(list(columns), axis=0)


def _short(seconds: float) -> str:
    return f"{seconds:.3g}"
