"""``python -m analysis curves RUN ... --metric ...``: curves of named runs, also of runs in progress."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.plots import style
from bepo.core.errors import UserError, unknown_choice
from bepo.explore.frames import Runs
from bepo.explore.index import names_of
from bepo.store.find import find_runs, views

_DASHES = ("-", "--", ":", "-.")
_SMOOTH = 5  # updates in the running mean
DEFAULT = ("train/success", "eval/validation_success")


def draw_curves(
    names: Sequence[str], results: Path, metrics: Sequence[str], tier: str | None = None, out: Path | None = None
) -> Path:
    """Draw one axis per metric with one line per run, and return the path of the picture (.png; also written as .pdf).

    The folder is ``out``, by default the folder for views of ``results``. Training metrics are running means of 5
    updates. Raises ``UserError`` for an unknown run, and for a metric that no run has logged.
    """
    if not names:
        raise UserError("curves: name run folders, run IDs or studies; `python -m analysis runs` lists them")
    runs = Runs(list({r.path: r for name in names for r in find_runs(name, results, tier)}.values()))
    table = runs.metrics
    if table.empty:
        raise UserError("curves: these runs have no recorded update yet")
    known = [str(column) for column in table if "/" in str(column)]
    for metric in metrics:
        if metric not in known:
            raise unknown_choice("metric", metric, known)
    figure = _figure(runs, table, list(metrics) or [metric for metric in DEFAULT if metric in known])
    ids = "-".join(run.id[:6] for run in runs.stored[:4]) + "-and-more" * (len(runs) > 4)
    path = (out or views(results)) / f"curves-{ids}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    for kind in ("pdf", "png"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=200)
    plt.close(figure)
    return path


def _figure(runs: Runs, table: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    columns = min(2, len(metrics))
    rows = -(-len(metrics) // columns)
    figure, axes = style.panels(rows, columns, style.PAGE, 2.4 * rows)
    for axis, metric in zip(axes, metrics):
        style.over_updates(axis, metric)
        for line, of_run in _lines(runs, table):
            if metric in of_run and not (values := of_run.set_index("update")[metric].dropna()).empty:
                smooth = 1 if metric.startswith("eval/") else _SMOOTH
                axis.plot(values.index, pd.Series(values).rolling(smooth, min_periods=1).mean(), **line)
    for axis in axes[len(metrics) :]:
        axis.set_visible(False)
    style.legend_above(figure, max((axis.lines for axis in axes), key=len), columns=3)
    return figure


def _lines(runs: Runs, table: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the style of each run's line, and its rows. Runs of one method have different dashes."""
    used: dict[str, int] = {}
    for run, label in zip(runs.stored, names_of(runs.stored)):
        method, of_run = run.config["credit"]["name"], pd.DataFrame(table[table["run"] == run.id])
        twin = used[method] = used.get(method, -1) + 1
        label += "" if run.metadata else f" ({len(of_run)} of {run.config.get('updates', '?')} updates)"
        yield {"color": style.method_colour(method), "linestyle": _DASHES[twin % len(_DASHES)], "label": label}, of_run
