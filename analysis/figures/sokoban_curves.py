"""Figure sokoban-success-curves: training and validation success against updates."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import MaxNLocator

from analysis.artefact import Figure, artefact
from analysis.methods import COLOURS, LABELS, ordered
from analysis.runs import Study

_SMOOTH = 5  # updates in the running mean of training success


@artefact("sokoban-success-curves", "figure", study="main_sokoban")
def sokoban_curves(study: Study) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(6.6, 2.6), sharey=True, layout="constrained")
    if study.records:
        training = study.metrics.assign(success=_smoothed(study.metrics))
        validation = (
            study.episodes.query("split == 'validation'")
            .groupby(["method", "seed", "update"], as_index=False)["success"]
            .mean()
        )
        for axis, frame, marker in ((axes[0], training, ""), (axes[1], validation, "o")):
            for method in ordered(frame["method"].unique()):
                _band(axis, frame[frame["method"] == method], method, marker)
        axes[0].legend(frameon=False, fontsize=8)
    axes[0].set_title(f"Training (running mean of {_SMOOTH})", fontsize=9)
    axes[1].set_title("Held-out validation boards", fontsize=9)
    axes[0].set_ylabel("Success rate (%)")
    for axis in axes:
        axis.set_xlabel("Update")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    methods = ordered({r.config["credit"]["name"] for r in study.records})
    counts = {m: sum(r.config["credit"]["name"] == m for r in study.records) for m in methods}
    n = ", ".join(f"{LABELS.get(m, m)} n = {k}" for m, k in counts.items())
    caption = (
        f"Sokoban success (tier {study.scale}): mean over training seeds ({n}); bands: one sample standard deviation."
    )
    return Figure(caption, figure)


def _smoothed(metrics: pd.DataFrame) -> pd.Series:
    return metrics.groupby("run")["train/success"].transform(lambda s: s.rolling(_SMOOTH, min_periods=1).mean())


def _band(axis: plt.Axes, frame: pd.DataFrame, method: str, marker: str) -> None:
    table = 100 * frame.pivot_table(index="update", columns="seed", values="success")
    mean, std = table.mean(axis=1), table.std(axis=1, ddof=1).fillna(0)
    colour = COLOURS.get(method, "black")
    axis.plot(mean.index, mean, color=colour, marker=marker, markersize=3, label=LABELS.get(method, method))
    axis.fill_between(mean.index, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)
