"""Methods ranked by success in training, for the first table and figure of the page."""

import numpy as np

from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.success import learning

MODEL = "small"
"""The model that every environment has."""


def ranked(studies: Studies) -> dict[str, dict[str, list[Run]]]:
    """Return the runs of each method by environment, the method with the highest success in training first."""
    trained = [run for run in studies.pooled() if run.model == MODEL and "train/success" in run.metrics]
    by_env = {}
    for env, runs in grouped(sorted(trained, key=lambda run: run.env), lambda run: run.env).items():
        by_method = grouped(sorted(runs, key=lambda run: run.seed), lambda run: run.method)
        order = sorted(by_method, key=lambda method: -float(np.mean(learning(by_method[method]))))
        by_env[env] = {method: by_method[method] for method in order}
    return by_env
