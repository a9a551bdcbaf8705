"""Figure credit-comparison: what each critic-free estimator makes of four small rollout groups."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from analysis.artefact import Figure, artefact
from analysis.methods import is_reconstruction, name_of
from analysis.rollout_graph import ENDS, advantages, draw, edges, group_of, matrix
from analysis.style import PAGE, letters, panels
from bepo.rollout import RolloutGroup

METHODS = ("grpo", "gigpo", "hgpo", "gagpo", "graphgpo", "gated_bepo")


@dataclass(frozen=True)
class Pattern:
    """A rollout group, where its nodes are drawn, and the records or edges whose advantage is shown.

    ``columns`` are ``"S→R"``, the mean over that edge, or ``"2: S→R"``, that edge's first record in episode 2.
    """

    title: str
    trajectories: tuple[str, ...]
    places: dict[str, tuple[float, float]]
    columns: tuple[str, ...]


PATTERNS = (
    Pattern(
        "Detour",
        ("S A +", "S W S A +", "S A -", "S W -"),
        {"S": (0, 1), "A": (1, 1.6), "W": (1, 0.4), "✓": (2, 1.6), "✗": (2, 0.4)},
        ("2: S→A", "2: S→W", "2: W→S", "4: S→W"),
    ),
    Pattern(
        "Shared downstream",
        ("S A M +", "S A M +", "S B M -", "S C D -"),
        {"S": (0, 1), "A": (0.9, 2), "B": (0.9, 1), "C": (0.9, 0), "M": (1.8, 1.5), "D": (1.8, 0)}
        | {"✓": (2.7, 2), "✗": (2.7, 0.5)},
        ("1: S→A", "3: S→B", "4: S→C", "3: M→✗"),
    ),
    Pattern(
        "Risky shortcut",
        ("S R +", "S R -", "S R -", "S L T +", "S L T +", "S L T -"),
        {"S": (0, 1), "R": (1, 1.8), "L": (0.8, 0.2), "T": (1.6, 0.2), "✓": (2.5, 1.8), "✗": (2.5, 0.2)},
        ("S→R", "S→L", "R→✓", "T→✓"),
    ),
    Pattern(
        "No alternative",
        ("S P Q +", "S P Q -", "S P Q +", "S R -"),
        {"S": (0, 1), "P": (0.8, 1.7), "Q": (1.6, 1.7), "R": (1.2, 0.2), "✓": (2.5, 1.7), "✗": (2.5, 0.2)},
        ("1: P→Q", "2: P→Q", "4: S→R", "4: R→✗"),
    ),
)


@artefact("credit-comparison", "figure")
def credit_comparison(_: object) -> Figure:
    figure, axes = panels(2, len(PATTERNS), PAGE, 3.3, height_ratios=(1, 1.15))
    graphs, tables = axes[: len(PATTERNS)], axes[len(PATTERNS) :]
    for pattern, graph, table in zip(PATTERNS, graphs, tables):
        group = group_of(pattern.trajectories)
        draw(graph, group, _places(group, pattern))
        graph.set_title(pattern.title)
        _table(table, group, pattern, named=table is tables[0])
    letters(graphs)
    plt.setp(tables[0].get_yticklabels()[-1], fontweight="bold")
    written = (", ".join(t.replace(" ", "") for t in pattern.trajectories) for pattern in PATTERNS)
    episodes = "; ".join(f"({letter}) {text}" for letter, text in zip("abcd", written))
    caption = (
        "Credit of the estimators, as configured by default, in four rollout patterns. Above: the merged graph of a "
        "group; arrows are the wider the more records, shaded states have two distinct successors (open gate), a tick "
        f"returns 10 and a cross 0. Episodes: {episodes}. Below: advantages of records (2: S→A is the first such step "
        "of episode 2) or the mean over an edge. (a) GRPO values the detour like the way. (b) Return matching values "
        "S→B like S→C, although B leads to M, which usually succeeds. (c) Shortest paths prefer R, expected returns L. "
        "(d) At P and R nothing was compared: Gated-BEPO keeps the outcome alone. ʳ reconstruction."
    )
    return Figure(caption, figure)


def _places(group: RolloutGroup, pattern: Pattern) -> dict[int, tuple[float, float]]:
    nodes = {end: node for node, end in ENDS.items()} | {key: i for i, key in enumerate(group.state_key)}
    return {nodes[key]: place for key, place in pattern.places.items()}


def _table(axis: Axes, group: RolloutGroup, pattern: Pattern, named: bool) -> None:
    found = advantages(group, METHODS)
    records = [_records(group, column) for column in pattern.columns]
    values = np.array([[found[m][r].mean() for r in records] for m in METHODS])
    names = [name_of(m) + ("ʳ" if is_reconstruction(m) else "") for m in METHODS]
    matrix(axis, values, names if named else [""] * len(METHODS), pattern.columns)
    axis.axhline(len(METHODS) - 1.5, color="black", linewidth=0.8)


def _records(group: RolloutGroup, column: str) -> np.ndarray:
    """The records that a column's name means."""
    episode, _, way = column.rpartition(": ")
    nodes = {end: node for node, end in ENDS.items()} | {key: i for i, key in enumerate(group.state_key)}
    source, target = (nodes[key] for key in way.split("→"))
    (found,) = (edge.records for edge in edges(group) if (edge.source, edge.target) == (source, target))
    return found[group.trajectory[found] == int(episode) - 1][:1] if episode else found
