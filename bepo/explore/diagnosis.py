"""Diagnosis of runs: alarms, how metrics moved, success by task type, advantages by term, values against returns.

``bepo diagnose`` prints these tables; notebooks call the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bepo.core.errors import UserError
from bepo.core.returns import discounted_returns
from bepo.credit import Estimator
from bepo.explore.advantages import applies, configured
from bepo.explore.frames import read_rollouts
from bepo.explore.task_types import types, whole_episodes
from bepo.runs.health import fifth
from bepo.store.run_files import StoredRun

SIGNALS = {
    "success": "train/success",
    "ended in failure": "train/ended_failure",
    "ended at the time limit": "train/ended_truncated",
    "return": "train/return",
    "valid actions": "train/valid_actions",
    "groups with equal returns": "train/tied_groups",
    "transitions without advantage": "credit/zero_advantage_transitions",
    "gate coverage": "credit/gate_transition_coverage",
    "explained variance": "credit/explained_variance",
    "entropy (nats)": "train/entropy",
    "KL (nats)": "train/kl",
    "clipped tokens": "train/clip_fraction",
    "gradient norm": "train/grad_norm",
    "response tokens": "train/response_length",
}
"""The metrics of a diagnosis by the words that the table has for them."""
_STAGES = ("rollout", "values", "credit", "update", "evaluation")


def signals(run: StoredRun) -> pd.DataFrame:
    """Return the means of the metrics in ``SIGNALS`` over the first, the middle and the last fifth of the updates.

    Metrics that the run did not log are left out. The table is empty without updates.
    """
    rows = pd.DataFrame(run.metrics())
    size = fifth(len(rows))
    last = len(rows) - size
    starts = {"first fifth": 0, "middle fifth": last // 2, "last fifth": last}
    means = {
        words: {part: rows[name].iloc[start : start + size].mean() for part, start in starts.items()}
        for words, name in SIGNALS.items()
        if name in rows
    }
    return pd.DataFrame.from_dict(means, orient="index", columns=list(starts))


def late_signals(methods: Mapping[str, Sequence[StoredRun]]) -> pd.DataFrame:
    """Return the metrics in ``SIGNALS`` over the last fifth of the updates, a row for each method, averaged over runs.

    Metrics that no run logged are left out.
    """
    late = {}
    for name, runs in methods.items():
        columns = [signals(run)["last fifth"] for run in runs]
        late[name] = pd.concat(columns, axis="columns").mean(axis="columns")
    table = pd.DataFrame.from_dict(late, orient="index")
    return table.reindex(columns=[words for words in SIGNALS if words in table])


def cost(run: StoredRun) -> pd.DataFrame:
    """Return the seconds of each stage, summed over updates, and its share in per cent.

    CPU seconds on a CPU, else wall-clock seconds.
    """
    rows = pd.DataFrame(run.metrics())
    sums = {stage: rows[run.clock + stage].sum() for stage in _STAGES if run.clock + stage in rows}
    seconds = pd.Series(sums, dtype=float)
    return pd.DataFrame({"seconds": seconds, "%": 100 * seconds / seconds.sum()})


def by_type(run: StoredRun) -> pd.DataFrame:
    """Return the success on test tasks before training and at the newest evaluation, by task type."""
    rows = types(0, whole_episodes(run))
    table = pd.DataFrame(rows, columns=["kind", "episodes", "before", "after"])
    return table.set_index(table.pop("kind").replace("", "all"))


def estimator_of(run: StoredRun) -> Estimator:
    """Return the estimator that trained the run. Raises ``UserError`` if this version does not know it."""
    settings: Mapping[str, Any] = run.config["credit"]
    if (estimator := configured(str(settings["name"]), settings)) is None:
        raise UserError(f"run {run.id}: this version does not know credit={settings['name']} with its settings")
    return estimator


def newest_terms(run: StoredRun) -> tuple[int, pd.DataFrame]:
    """Return the newest update whose rollouts are stored, and its ``terms``. Raises ``UserError`` without them."""
    if not run.rollouts():
        raise UserError("No rollouts are stored, so there are no terms of the advantage to show.")
    update = max(run.rollouts())
    return update, terms(run, update)


def terms(run: StoredRun, update: int) -> pd.DataFrame:
    """Return the advantage of every transition of a stored batch and its terms, one column each.

    Raises ``UserError`` if the batch is not stored or lacks what the estimator reads.
    """
    batch, estimator = read_rollouts(run, update), estimator_of(run)
    if not applies(estimator, batch):
        raise UserError(f"run {run.id}, update {update}: the stored batch lacks what credit={estimator.name} reads")
    credit = estimator.credit_of(batch)
    estimator.refuse_names(credit.terms, ("realised return",))
    realised = discounted_returns(batch, float(run.config["credit"].get("gamma", 1.0)))
    return pd.DataFrame({"advantage": credit.advantage, **credit.terms, "realised return": realised})


def spreads(table: pd.DataFrame) -> pd.DataFrame:
    """Return deviation, quantiles and the share of zeros of the advantage and each term in the table of ``terms``."""
    numbers = table.drop(columns="realised return")
    spread = numbers.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).T
    spread.columns = [f"{100 * q:g} %" for q in spread.columns]
    spread.insert(0, "deviation", numbers.std(ddof=0))
    return spread.assign(zero=(numbers == 0).mean())


def histograms(table: pd.DataFrame, bins: int = 30) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return counts (bins,) and edges (bins + 1,) of the finite values of the advantage and each term of ``terms``."""
    numbers = table.drop(columns="realised return").astype(float)
    return {str(name): np.histogram(column[np.isfinite(column)], bins) for name, column in numbers.items()}


def calibration(table: pd.DataFrame, bins: int = 5) -> pd.DataFrame | None:
    """Return the mean value and realised return in bins of the value; None if the table has no values.

    Bins have equally many transitions, but equal values share a bin, so there may be fewer.
    """
    if "value" not in table:
        return None
    rank = table["value"].rank()  # the mean rank of equal values
    binned = table.assign(bin=np.ceil(rank * bins / rank.count()) - 1)
    return binned.groupby("bin").agg(
        **{"value": ("value", "mean"), "realised return": ("realised return", "mean"), "transitions": ("value", "size")}
    )
