"""Table sample-efficiency: the cost of each method up to a success rate."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import scipy  # loads scipy.stats when it is used

from analysis.data.efficiency import WINDOW, Cost, cost_to
from analysis.data.methods import environment_name, name_of, ordered
from analysis.data.rows import EVERY_METHOD
from analysis.data.runs import Run, grouped
from analysis.data.statistics import CONFIDENCE
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.table import Table

THRESHOLDS = (25, 50, 75)  # per cent
_ABBREVIATED = 10_000  # numbers from here on are printed in thousands


@artefact("sample-efficiency", "table", study=EVERY_METHOD)
def sample_efficiency(studies: Studies) -> Table:
    """Compare updates, tokens and seconds up to a training success."""
    runs = [run for run in studies.pooled() if not run.is_evaluation and "train/success" in run.metrics]
    rows, headings, methods = [], [], []
    places = grouped(runs, lambda run: (run.env, run.model, run.task_set))
    for (env, model, _), same in sorted(places.items()):
        for threshold in THRESHOLDS:
            costs_of = {
                m: [cost_to(r, threshold / 100) for r in of_method] for m, of_method in _by_method(same).items()
            }
            if not any(reached for costs in costs_of.values() for _, reached in costs):
                continue
            for method, costs in costs_of.items():
                rows.append([name_of(method), *_cells(costs)])
                headings.append(f"{environment_name(env)}, model {model}: to {threshold} % in training")
                methods.append(name_of(method))
    return Table(
        f"Cost of training until the mean training success of {WINDOW} updates reaches a threshold.",
        ["Method", "Reached", "Updates", "Generated tokens", "Seconds"],
        rows,
        [
            " ".join(protocol(studies.values(), runs)),
            "Reached: training seeds that reach the threshold. Cells: mean over training seeds with its 95 % interval "
            "(Student's t, cut off at zero; no interval with one seed). ≥: some seeds do not reach it and count with "
            "all their updates, so the mean is a lower bound and has no interval. Seconds: CPU time for runs on a CPU, "
            "else wall-clock time, without evaluations. k: thousands. Thresholds that no run reaches are left out.",
            *origins(runs),
        ],
        headings=headings,
        methods=methods,
    )


def _by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    rows = grouped(sorted(runs, key=lambda run: run.seed), lambda run: run.method)
    return {method: rows[method] for method in ordered(rows)}


def _cells(costs: Sequence[tuple[Cost, bool]]) -> list[str]:
    """Return the number of seeds that reached the threshold, and each cost."""
    reached = sum(done for _, done in costs)
    columns = zip(*(cost for cost, _ in costs))
    texts = [_mean(np.array(column), reached == len(costs)) if reached else "–" for column in columns]
    return [f"{reached} of {len(costs)}", *texts]


def _mean(values: np.ndarray, reached: bool) -> str:
    mean = float(values.mean())
    if not np.isfinite(mean):
        return "not logged"
    if not reached:
        return f"≥ {_short(mean)}"
    if len(values) < 2 or not np.ptp(values):
        return _short(mean)
    quantile = float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    half = quantile * float(values.std(ddof=1)) / sqrt(len(values))
    return f"{_short(mean)} [{_short(max(mean - half, 0))}, {_short(mean + half)}]"


def _short(value: float) -> str:
    return f"{value / 1000:.0f}k" if value >= _ABBREVIATED else f"{value:.0f}" if value >= 10 else f"{value:.2g}"
