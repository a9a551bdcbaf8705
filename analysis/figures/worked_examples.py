"""Figures credit-comparison and method-overview: real estimators on small rollout groups."""

from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import yaml
from matplotlib.axes import Axes

from analysis.data.methods import marked_name
from analysis.grid.artefact import artefact
from analysis.grid.table import Figure
from analysis.plots.rollout_graph import ENDS, OPEN, advantages, draw, edges, group_of, matrix
from analysis.plots.style import PAGE, letters, panels
from bepo.core.batch import RolloutBatch
from bepo.credit.gated_bepo import GatedBEPO

METHODS = ("grpo", "gigpo", "hgpo", "gagpo", "graphgpo", "gated_bepo")


@dataclass(frozen=True)
class Pattern:
    """A rollout group of ``patterns.yaml``, where the fields are explained."""

    title: str
    trajectories: list[str]
    places: dict[str, tuple[float, float]]
    columns: list[str] = field(default_factory=list)


*PATTERNS, OVERVIEW = (
    Pattern(**p) for p in yaml.safe_load(Path(__file__).with_name("patterns.yaml").read_text(encoding="utf-8"))
)


@artefact("credit-comparison", "figure")
def credit_comparison(_: object) -> Figure:
    """Draw the advantages of each critic-free estimator on four groups."""
    figure, axes = panels(2, len(PATTERNS), PAGE, 3.3, height_ratios=(1, 1.15))
    graphs, tables = axes[: len(PATTERNS)], axes[len(PATTERNS) :]
    for pattern, graph, table in zip(PATTERNS, graphs, tables):
        batch = group_of(pattern.trajectories)
        draw(graph, batch, pattern.places)
        graph.set_title(pattern.title)
        credit = advantages(batch, METHODS)
        means = [[credit[m][transitions(batch, column)].mean() for column in pattern.columns] for m in METHODS]
        names = [marked_name(m) if table is tables[0] else "" for m in METHODS]
        matrix(table, np.array(means), names, pattern.columns)
        table.axhline(len(METHODS) - 1.5, color="black", linewidth=0.8)
    letters(graphs)
    plt.setp(tables[0].get_yticklabels()[-1], fontweight="bold")
    written = [", ".join(t.replace(" ", "") for t in pattern.trajectories) for pattern in PATTERNS]
    episodes = "; ".join(f"({letter}) {text}" for letter, text in zip("abcd", written))
    caption = (
        "Credit of the estimators, with default settings, in four rollout patterns. Top: the merged graph of a group. "
        "Wider arrows stand for more records, shaded states have two distinct successors (open gate), a tick returns "
        f"10 and a cross 0. Episodes: {episodes}. Bottom: advantages of records (2: S→A is the first such step of "
        "episode 2), or the mean over an edge. (a) GRPO gives the detour the same credit as the direct way. (b) Return "
        "matching gives S→B the same credit as S→C, although B leads to M, which usually succeeds. (c) Shortest paths "
        "prefer R, expected returns prefer L. (d) At P and R there is no alternative to compare, so Gated-BEPO keeps "
        "the outcome only. ʳ reconstruction."
    )
    return Figure(caption, figure)


@artefact("method-overview", "figure")
def method_overview(_: object) -> Figure:
    """Draw the stages of Gated-BEPO on one group."""
    batch, estimator = group_of(OVERVIEW.trajectories), GatedBEPO()
    credit = estimator.credit_of(batch)
    figure, axes = panels(1, 5, PAGE, 1.9, width_ratios=(1, 1.35, 1, 1, 1))
    _draw_rollouts(axes[0], batch, credit.terms["rho"])
    states = [batch.state_key[state] for state in batch.state]
    text = {state: f"{state}\n{value:.1f}" for state, value in zip(states, credit.terms["value"])}
    draw(axes[1], batch, OVERVIEW.places, text=text, size=17)
    axes[1].set_title(OVERVIEW.title)
    titles = ("Outcome $\\hat{A}^{out}$", "Fixed point $\\hat{A}^{FP}$", "Mixed $\\hat{A}$")
    for axis, title, values in zip(axes[2:], titles, (credit.terms["outcome"], credit.terms["step"], credit.advantage)):
        table = np.full((batch.n_trajectories, int(batch.step.max()) + 1), np.nan)  # nan after the end of an episode
        table[batch.trajectory, batch.step] = values
        matrix(axis, table, [""] * len(table), [str(t + 1) for t in range(table.shape[1])])
        axis.set(title=title, xlabel="Step")
    letters(axes)
    caption = (
        "The advantages of Gated-BEPO on one rollout group of four episodes, as the estimator computes them. "
        "(a) States by episode and step. Shaded: open gate, ρ = 1. (b) Equal states merged, with the fixed-point value "
        "under each name. (c) Outcome advantage of the episode. (d) Residuals of the values, accumulated along each "
        "episode and standardised over the group. (e) η times (c) plus w ρ times (d), with "
        f"w = {estimator.step_weight:g} and η = {estimator.eta_min:g} if the gate is open, else 1. Every response "
        "token of a step gets the advantage of the step."
    )
    return Figure(caption, figure)


def transitions(batch: RolloutBatch, column: str) -> np.ndarray:
    """Return the transitions that a column's name selects."""
    episode, _, way = column.rpartition(": ")
    source, target = way.split("→")
    rows = np.array(edges(batch)[source, target])
    return rows[batch.trajectory[rows] == int(episode) - 1][:1] if episode else rows


def _draw_rollouts(axis: Axes, batch: RolloutBatch, rho: np.ndarray) -> None:
    episodes, steps = batch.n_trajectories, int(batch.step.max()) + 1
    matrix(axis, np.full((episodes, steps), np.nan), [str(k + 1) for k in range(episodes)], [])
    axis.set(title="Rollout group", xlabel="Step", ylabel="Episode", xlim=(-0.6, steps + 0.4))
    axis.set_xticks(range(steps), [str(t + 1) for t in range(steps)])
    for i in range(len(batch)):
        x, y = batch.step[i], batch.trajectory[i]
        box = {"boxstyle": "circle,pad=0.25", "facecolor": OPEN if rho[i] else "white", "linewidth": 0.7}
        axis.text(x, y, batch.state_key[batch.state[i]], fontsize=6.5, bbox=box, ha="center", va="center")
        if batch.terminal[i]:
            axis.text(x + 0.75, y, ENDS[batch.successor[i]], fontsize=8, ha="center", va="center")
