"""Figure supp-runtime: seconds per update by stage."""

import pandas as pd

from analysis.data.studies import StudyRuns
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots import style

_STAGES = {
    "rollout": "Rollout",
    "old_logprob": "Old log-probabilities",
    "reference": "Reference log-probabilities",
    "values": "Critic's values",
    "credit": "Gated-BEPO advantages",
    "update": "Policy update",
    "evaluation": "Evaluation (when due)",
}


@artefact("supp-runtime", "figure", study="runtime")
def runtime(study: StudyRuns) -> Figure:
    """Draw the seconds of each stage, on a scale that is linear around zero."""
    figure, (axis,) = style.panels(1, 1, style.COLUMN, 1.9)
    axis.set_xlabel("Seconds per update")
    tables = {stage: style.by_seed(study.runs, f"seconds/{stage}") for stage in _STAGES}
    seconds = pd.DataFrame({stage: table.mean() for stage, table in tables.items() if not table.empty}).transpose()
    if "credit" not in seconds.index:
        style.nothing(axis)
        return Figure(f"ALFWorld seconds per update by stage (tier {study.tier}). Not run.", figure)
    mean, std = seconds.mean(axis=1), seconds.std(axis=1, ddof=1).fillna(0)
    colours = [style.method_colour("gated_bepo") if stage == "credit" else "#B0B0B0" for stage in seconds.index]
    names = [_STAGES[stage] for stage in seconds.index]
    axis.barh(names, mean, xerr=std, color=colours, height=0.65, error_kw={"linewidth": 0.8, "capsize": 2})
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set_xscale("symlog", linthresh=10 ** int(f"{mean[mean > 0].min():e}".split("e")[1]))
    axis.set_xlim(0, 6 * (mean + std).max())
    for place, (value, spread) in enumerate(zip(mean, std)):
        end = (value + spread, place)
        axis.annotate(f"{value:.3g}", end, (4, 0), textcoords="offset points", va="center", fontsize=6.5)
    share = 100 * mean["credit"] / mean.drop("evaluation", errors="ignore").sum()
    caption = (
        f"ALFWorld seconds per update by stage on a symmetric-log scale (tier {study.tier}). Coloured: Gated-BEPO's "
        f"advantages with all diagnostics, {mean['credit']:.3g} s or {share:.2g} % of an update. Mean over updates, "
        f"then over {style.counted({'': study.runs})}. Bars: one sample standard deviation over training seeds."
    )
    notes = style.unlogged(study.runs, [f"seconds/{stage}" for stage in ("rollout", "credit", "update")])
    return Figure(caption, figure, study.runs, notes)
