"""A rollout group as a picture: its merged graph, and a number on every edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.transforms import offset_copy

from analysis.style import GREY, PAGE, panels
from bepo.credit import estimators
from bepo.credit.gated_bepo import GatedBEPO
from bepo.graph import RolloutGraph
from bepo.rollout import RolloutGroup, Terminal

ENDS = {-Terminal.SUCCESS: "✓", -Terminal.FAILURE: "✗", -Terminal.TRUNCATION: "…"}
# Red below zero, blue above: safe for colour-blind readers, and both dark at the ends; an arrow of zero is grey.
SIGNED, SIGNED_LINES = "RdBu", "coolwarm_r"
OPEN = "#FFD9B8"  # a state whose gate is open
_REWARD = 10.0  # of a success, as in ALFWorld and WebShop


@dataclass(frozen=True)
class Edge:
    """All records from one state to one successor (negative: an end)."""

    source: int
    target: int
    records: np.ndarray


def group_of(trajectories: Sequence[str]) -> RolloutGroup:
    """A group written down: ``"S A +"`` is an episode through states S and A that ends in success, ``-`` in failure."""
    rows = []
    for k, text in enumerate(trajectories):
        *states, end = text.split()
        done = {"+": "success", "-": "failure"}[end]
        for t, state in enumerate(states):
            last = t == len(states) - 1
            rows.append({"uid": 0, "traj": k, "t": t, "obs": state, "next": done if last else states[t + 1]})
            rows[-1] |= {"r": _REWARD * (last and end == "+"), "done": done if last else None, "valid": True}
    return RolloutGroup.from_rows(rows)


def advantages(group: RolloutGroup, methods: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """What each estimator, as configured by default, gives the records. Without those that need a critic."""
    known = estimators()
    names = methods or [name for name, cls in known.items() if not getattr(cls, "needs_critic", False)]
    return {name: known[name]()(group).advantage for name in names}


def edges(group: RolloutGroup) -> list[Edge]:
    """The merged graph, by first record."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, pair in enumerate(zip(group.state.tolist(), group.successor.tolist())):
        found.setdefault(pair, []).append(i)
    return [Edge(*pair, np.array(records)) for pair, records in found.items()]


def on_edges(group: RolloutGroup, values: np.ndarray) -> np.ndarray:
    """Mean over the records of each edge."""
    return np.array([values[edge.records].mean() for edge in edges(group)])


def name(group: RolloutGroup, node: int) -> str:
    return ENDS[node] if node < 0 else group.state_key[node]


def layout(group: RolloutGroup) -> dict[int, tuple[float, float]]:
    """States in columns by the fewest steps to them, spread within a column; ends in a column of their own."""
    column = _fewest_steps(group)
    ends = sorted({e.target for e in edges(group) if e.target < 0}, reverse=True)
    column |= dict.fromkeys(ends, max(column.values()) + 1)
    place = {}
    for x in sorted(set(column.values())):
        members = [node for node, at in column.items() if at == x]
        # Beside where they come from, so that edges cross less.
        come = {e.target: place[e.source][1] for e in edges(group) if e.source in place}
        members.sort(key=lambda node: (come.get(node, 0.0), node))
        for rank, node in enumerate(members):
            place[node] = (float(x), (rank + 0.5) / len(members))
    return place


def _fewest_steps(group: RolloutGroup) -> dict[int, int]:
    depth = {int(s): 0 for s in group.state[group.step == 0]}
    found = edges(group)
    while True:
        reached = {e.target: depth[e.source] + 1 for e in found if e.source in depth and e.target not in depth}
        reached = {node: at for node, at in reached.items() if node >= 0}
        if not reached:
            return depth
        depth |= reached


def draw(
    axis: Axes,
    group: RolloutGroup,
    place: Mapping[int, tuple[float, float]],
    values: np.ndarray | None = None,
    text: Mapping[int, str] | None = None,
    limit: float = 2.0,
    size: float = 11,
) -> None:
    """Circles are states (filled: branching, so that the default gate is open), signs are ends, arrows are edges, the
    wider the more records. ``values`` (one an edge) colour them between ``-limit`` and ``limit``; ``text`` replaces the
    names of nodes."""
    graph = RolloutGraph(group)
    norm = Normalize(-limit, limit)
    scale = colormaps[SIGNED_LINES]
    for k, edge in enumerate(edges(group)):
        colour = GREY if values is None else scale(norm(values[k]))
        _arrow(axis, place[edge.source], place[edge.target], edge, colour, size)
    for node, (x, y) in place.items():
        opened = node >= 0 and graph.branches[node] >= 2
        shape = "s" if node < 0 else "o"
        fill = OPEN if opened else "white"
        axis.plot(x, y, shape, markersize=size, markerfacecolor=fill, markeredgecolor="black", markeredgewidth=0.7)
        words = (text or {}).get(node, name(group, node))
        small = 5.5 if "\n" in words else 6.5
        axis.text(x, y, words, ha="center", va="center_baseline", fontsize=small, linespacing=0.95)
    axis.set_axis_off()
    axis.margins(0.15)


def _arrow(axis: Axes, start: tuple, end: tuple, edge: Edge, colour: object, size: float) -> None:
    width = 0.6 + 0.5 * min(len(edge.records), 6)
    if edge.source == edge.target:  # a ring on top of the state
        above = offset_copy(axis.transData, axis.figure, y=0.75 * size, units="points")
        ring = {"markersize": 0.7 * size, "markerfacecolor": "none", "markeredgecolor": colour}
        axis.plot(*start, "o", transform=above, markeredgewidth=width, zorder=0.5, **ring)
        return
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        mutation_scale=6,
        shrinkA=size / 2,
        shrinkB=size / 2,
        connectionstyle="arc3,rad=0.12",
        color=colour,
        linewidth=width,
        zorder=0.5,
    )
    axis.add_patch(arrow)


def matrix(axis: Axes, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], limit: float = 2.0) -> None:
    """Numbers in coloured cells; nan stays empty."""
    axis.imshow(values, cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto")
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            shown = f"{value:.1f}".replace("-0.0", "0.0").replace("-", "−")
            dark = abs(value) > 0.65 * limit
            axis.text(x, y, shown, ha="center", va="center", fontsize=6, color="white" if dark else "black")


# --- a recorded group, for the viewer -------------------------------------------------------------------------------


def tasks(group: RolloutGroup) -> dict[str, int]:
    """The groups of a file, by a name to choose them by."""
    wins = np.bincount(group.trajectory_group, weights=group.success, minlength=group.n_groups)
    return {f"{g}: task {task}, {int(wins[g])} successes": g for g, task in enumerate(group.task)}


def telling(group: RolloutGroup) -> str:
    """The name of the task whose outcomes are the most mixed."""
    rate = np.bincount(group.trajectory_group, weights=group.success) / np.bincount(group.trajectory_group)
    return list(tasks(group))[int(np.argmin(np.abs(rate - 0.5)))]


def one_group(group: RolloutGroup, number: int) -> RolloutGroup:
    """One task's records, without tokens."""
    rows = [
        {
            "uid": number,
            "task": group.task[number],
            "traj": int(group.trajectory[i]),
            "t": int(group.step[i]),
            "obs": group.state_key[group.state[i]],
            "next": group.state_key[group.next_state[i]],
            "r": float(group.reward[i]),
            "done": Terminal(int(group.terminal[i])).name if group.terminal[i] else None,
            "valid": bool(group.valid[i]),
        }
        for i in np.flatnonzero(group.group == number)
    ]
    return RolloutGroup.from_rows(rows)


def records(group: RolloutGroup) -> pd.DataFrame:
    """A row a record: where it is, what Gated-BEPO's parts are there, and every estimator's advantage."""
    graph, terms = RolloutGraph(group), GatedBEPO()(group).terms
    columns = {
        "episode": group.trajectory,
        "step": group.step,
        "state": group.state,
        "next": [name(group, s) if s < 0 else s for s in group.successor],
        "visits": graph.visits[group.state],
        "branches": graph.branches[group.state],
        "gate": terms["rho"],
        "value": terms["value"],
        "residual": terms["residual"],
    }
    return pd.DataFrame(columns | advantages(group) | {"text": [group.state_key[s] for s in group.state]}).round(3)


def view(group: RolloutGroup, values: np.ndarray, title: str) -> Figure:
    """The group's graph with ``values`` (one a record) on its edges; states show number and fixed-point value."""
    height = max(2.5, 0.35 * max(np.unique(list(_fewest_steps(group).values()), return_counts=True)[1]))
    figure, (axis,) = panels(1, 1, PAGE, height)
    value = GatedBEPO(solver="exact")(group).terms["value"]
    text = {int(s): f"{s}\n{v:.1f}".replace("-0.0", "0.0") for s, v in zip(group.state, value)}
    limit = float(np.abs(values).max()) or 1.0
    draw(axis, group, layout(group), on_edges(group, values), text, limit, size=16)
    figure.set_layout_engine("none")
    axis.set_position((0.01, 0.02, 0.87, 0.96))
    scale = ScalarMappable(Normalize(-limit, limit), SIGNED_LINES)
    bar = figure.colorbar(scale, cax=figure.add_axes((0.9, 0.15, 0.015, 0.7)))
    bar.set_label(title)
    return figure
