"""Table ranking: the methods of each environment, the fastest learner first. The first table of the page."""

from collections.abc import Sequence

import numpy as np

from analysis.data.methods import environment_name, is_reconstruction, name_of
from analysis.data.rows import EVERY_METHOD
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import final, learning, mean_of, with_interval
from analysis.grid.table import Printed, Table

MODEL = "small"  # the model that every environment has


@artefact("ranking", "table", study=EVERY_METHOD)
def ranking(studies: Studies) -> Table:
    """Rank methods by their success in training."""
    by_env = ranked(studies)
    rows, headings, used = [], [], []
    for env, by_method in by_env.items():
        for method, runs in by_method.items():
            rows.append(_row(method, runs))
            headings.append(environment_name(env))
            used += runs
    return Table(
        f"Methods by environment, the fastest learner first (success in per cent, model {MODEL}).",
        ["Method", "In training", "95 % interval", "Final", "Seeds"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "In training: averaged over all updates, with Student's interval over training seeds; runs of an "
            "environment share one warm start. Final: the last policy on the test tasks, ± one sample standard "
            "deviation. The order is not a test. The upper bound uses the expert's distance to success. "
            "ʳ reconstruction.",
            *origins(used),
        ],
        headings=headings,
    )


def ranked(studies: Studies) -> dict[str, dict[str, list[Run]]]:
    """Return the runs of each method by environment, the method with the highest success in training first."""
    trained = [run for run in studies.pooled() if run.model == MODEL and "train/success" in run.metrics]
    found = {}
    for env, runs in grouped(sorted(trained, key=lambda run: run.env), lambda run: run.env).items():
        by_method = grouped(sorted(runs, key=lambda run: run.seed), lambda run: run.method)
        order = sorted(by_method, key=lambda method: -float(np.mean(learning(by_method[method]))))
        found[env] = {method: by_method[method] for method in order}
    return found


def _row(method: str, runs: Sequence[Run]) -> list[Printed | str]:
    rates = learning(runs)
    told = with_interval(float(rates.mean()), [1], [rates], ".1f")
    mean, _, interval = told.partition(" ")
    name = name_of(method) + "ʳ" * is_reconstruction(method)
    return [name, mean, interval or "–", mean_of(final(runs)), str(len(runs))]
