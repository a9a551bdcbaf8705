"""Figure ranking-curves: training success of every method by environment, each line with its name."""

import pandas as pd

from analysis.data.methods import environment_name, is_privileged, name_of
from analysis.data.rows import EVERY_METHOD
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.ranking import MODEL, ranked
from analysis.grid.table import Figure
from analysis.plots import style

_SMOOTH = 10  # updates in the running mean


@artefact("ranking-curves", "figure", study=EVERY_METHOD)
def ranking_curves(studies: Studies) -> Figure:
    """Draw the mean curve of each method."""
    by_env = ranked(studies)
    figure, axes = style.panels(1, max(len(by_env), 1), style.PAGE * 1.25, 2.9)
    if not by_env:
        style.nothing(axes[0])
    for axis, (env, by_method) in zip(axes, by_env.items()):
        style.over_updates(axis, "Training success (%)" if axis is axes[0] else "", environment_name(env))
        for method, runs in by_method.items():
            rates = pd.Series(100 * style.by_seed(runs, "train/success").mean(axis=1))
            mean = pd.Series(rates.rolling(_SMOOTH, min_periods=1).mean())
            dashes = "--" if is_privileged(method) else "-"
            line = {"label": name_of(method), "linestyle": dashes, "linewidth": 1.3}
            axis.plot(mean.index, mean, color=style.method_colour(method), **line)
        style.percent(axis)
        style.name_lines(axis)
    used = [run for by_method in by_env.values() for runs in by_method.values() for run in runs]
    caption = (
        f"Success in training by method, model {MODEL} (tier {studies.tier}): mean over training seeds, running mean "
        f"of {_SMOOTH} updates. Dashed: the oracle, which is privileged. How early a line rises is what step credit "
        "changes."
    )
    return Figure(caption, figure, used)
