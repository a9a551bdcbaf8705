"""How Bellman sweeps approach the fixed point of a recorded rollout group."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from analysis.methods import COLOURS
from analysis.style import GREY, PAGE, nothing, panels
from bepo.graph import RolloutGraph, centring_error, iterate, solve
from bepo.returns import gae, standardise
from bepo.rollout import RolloutGroup

BUDGET = 20  # the paper's


def convergence(group: RolloutGroup, gamma: float = 0.95, gae_lambda: float = 0.8, sweeps: int = 200) -> pd.DataFrame:
    """A row a sweep k, largest over the group: ``change`` of a value, its ``error`` against the exact fixed point, the
    certificate's ``bound`` on that, the ``centring`` error, and how far the standardised step ``advantage`` is from the
    exact one."""
    graph = RolloutGraph(group)
    exact = solve(graph, gamma).value
    target = _advantage(graph, exact, gamma, gae_lambda)
    iterates = iterate(graph, gamma, sweeps, tolerance=0.0).iterates
    rows = []
    for k, value in enumerate(iterates):
        change = np.abs(value - iterates[k - 1]).max() if k else np.nan
        rows.append(
            {
                "sweep": k,
                "change": change,
                "error": np.abs(value - exact).max(),
                "bound": gamma * change / (1 - gamma),
                "centring": centring_error(graph, graph.residuals(value, gamma)),
                "advantage": np.abs(_advantage(graph, value, gamma, gae_lambda) - target).max(),
            }
        )
    return pd.DataFrame(rows)


def _advantage(graph: RolloutGraph, value: np.ndarray, gamma: float, gae_lambda: float) -> np.ndarray:
    accumulated = gae(graph.group, graph.residuals(value, gamma), gamma, gae_lambda)
    return standardise(accumulated, graph.group.group_start)


def picture(table: pd.DataFrame) -> plt.Figure:
    if not table[["error", "advantage"]].any(axis=None):  # a logarithm has no zero
        figure, (axis,) = panels(1, 1, PAGE, 2.4)
        nothing(axis, "nothing to solve: without sweeps the values are the fixed point")
        return figure
    figure, (values, advantages) = panels(1, 2, PAGE, 2.4, sharex=True)
    for name, label, dash in (
        ("error", "distance to V*", "-"),
        ("bound", "certificate", "--"),
        ("centring", "centring error", ":"),
    ):
        values.plot(table["sweep"], table[name], dash, color=COLOURS["gated_bepo"], label=label)
    values.set_ylabel("Largest over states")
    values.legend(loc="best")
    advantages.plot(table["sweep"], table["advantage"], color=COLOURS["gated_bepo"])
    advantages.set_ylabel("Largest |A - A*| over records")
    for axis in (values, advantages):
        axis.set_xlabel("Bellman sweeps")
        axis.set_yscale("log")
        axis.axvline(BUDGET, color=GREY, linewidth=0.8, linestyle="--")
        axis.set_ylim(bottom=1e-12)
    return figure
