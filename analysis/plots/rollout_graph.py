"""Pictures of a rollout group: its merged graph with a number on every edge."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.transforms import offset_copy

from analysis.data.methods import known_methods
from analysis.data.runs import grouped
from analysis.plots.style import GREY, PAGE, method_colour, nothing, panels
from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.graph import RolloutGraph, centring_error, iterate, solve
from bepo.core.returns import gae, standardise
from bepo.credit.gated_bepo import GatedBEPO
from bepo.explore.advantages import applies

ENDS = {-Terminal.SUCCESS: "✓", -Terminal.FAILURE: "✗", -Terminal.TRUNCATION: "…"}
# Red below zero, blue above, dark at both ends: safe for colour-blind readers. An arrow of zero is grey.
SIGNED, SIGNED_LINES = "RdBu", "coolwarm_r"
OPEN = "#FFD9B8"  # a state whose gate is open
_REWARD = 10.0  # of a success, as in ALFWorld and WebShop
_BUDGET = 20  # sweeps of the paper
_VALUES = {"error": ("distance to V*", "-"), "bound": ("certificate", "--"), "centring": ("centring error", ":")}


def group_of(trajectories: Sequence[str]) -> RolloutBatch:
    """Return a group from texts: ``"S A +"`` visits states S and A and succeeds; with ``-`` it fails."""
    rows = []
    for k, text in enumerate(trajectories):
        *states, end = text.split()
        done = {"+": "success", "-": "failure"}[end]
        for t, (state, after) in enumerate(zip(states, [*states[1:], done])):
            place = {"uid": 0, "traj": k, "t": t, "obs": state, "next": after}
            rows.append(place | {"r": 0.0, "done": None, "valid": True})
        rows[-1] |= {"r": _REWARD * (end == "+"), "done": done}
    return RolloutBatch.from_rows(rows)


def advantages(batch: RolloutBatch, methods: Iterable[str] = ()) -> dict[str, np.ndarray]:
    """Return the advantages of each estimator with default settings; by default of all that the batch is enough for."""
    known = {name: cls() for name, cls in known_methods().items()}
    methods = methods or [name for name, estimator in known.items() if applies(estimator, batch)]
    return {name: known[name](batch).advantage for name in methods}


def edges(batch: RolloutBatch) -> dict[tuple[str, str], list[int]]:
    """Return the transitions of each edge of the merged graph, by the names of state and successor."""
    names = dict(enumerate(batch.state_key)) | ENDS
    pairs = [(names[state], names[after]) for state, after in zip(batch.state, batch.successor)]
    return grouped(range(len(pairs)), pairs.__getitem__)


def layout(batch: RolloutBatch) -> dict[str, tuple[float, float]]:
    """Return a position for each node: states in columns by distance from the start, ends in the last column."""
    graph = nx.DiGraph(list(edges(batch)))
    ends = [end for end in ENDS.values() if end in graph]
    starts = dict.fromkeys(batch.state_key[s] for s in batch.state[batch.step == 0])
    columns = [[node for node in layer if node not in ends] for layer in nx.bfs_layers(graph, starts)]
    columns = [*filter(None, columns), ends]
    return {n: (float(x), (i + 0.5) / len(column)) for x, column in enumerate(columns) for i, n in enumerate(column)}


def draw(
    axis: Axes,
    batch: RolloutBatch,
    place: Mapping[str, tuple[float, float]],
    values: np.ndarray | None = None,
    text: Mapping[str, str] | None = None,
    limit: float = 2.0,
    size: float = 11,
) -> None:
    """Draw states as circles (filled: at least two successors, so the default gate is open), ends as signs.

    Edges are arrows; wider arrows stand for more transitions. ``values`` (one per transition) colour them by mean,
    between ``-limit`` and ``limit``. ``text`` replaces the names of nodes.
    """
    branches = dict(zip(batch.state_key, RolloutGraph(batch).branches))
    colours = ScalarMappable(Normalize(-limit, limit), SIGNED_LINES)
    for (source, target), transitions in edges(batch).items():
        colour = GREY if values is None else colours.to_rgba(values[transitions].mean())
        width = 0.6 + 0.5 * min(len(transitions), 6)
        _arrow(axis, place[source], place[target], {"color": colour, "linewidth": width}, size)
    for node, (x, y) in place.items():
        fill = OPEN if branches.get(node, 0) >= 2 else "white"
        edge_line = {"markeredgecolor": "black", "markeredgewidth": 0.7}
        axis.plot(x, y, "o" if node in branches else "s", markersize=size, markerfacecolor=fill, **edge_line)
        name = (text or {}).get(node, node)
        small = 5.5 if "\n" in name else 6.5
        axis.text(x, y, name, ha="center", va="center_baseline", fontsize=small, linespacing=0.95)
    axis.set_axis_off()
    axis.margins(0.15)


def _arrow(axis: Axes, start: tuple, end: tuple, line: dict[str, Any], size: float) -> None:
    """Draw an arrow between two nodes of this size, or a ring above a node that is its own successor."""
    if start == end:
        above = offset_copy(axis.transData, axis.get_figure(root=True), y=0.75 * size, units="points")
        ring = {"marker": "o", "markersize": 0.7 * size, "markerfacecolor": "none", "zorder": 0.5}
        axis.plot(*start, transform=above, markeredgecolor=line["color"], markeredgewidth=line["linewidth"], **ring)
    else:
        shape = {"arrowstyle": "-|>", "mutation_scale": 6, "connectionstyle": "arc3,rad=0.12"}
        axis.add_patch(FancyArrowPatch(start, end, shrinkA=size / 2, shrinkB=size / 2, zorder=0.5, **shape, **line))


def matrix(axis: Axes, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], limit: float = 2.0) -> None:
    """Draw numbers in coloured squares; nan stays empty."""
    axis.imshow(values, cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto")
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.1f}".replace("-0.0", "0.0").replace("-", "−")
            colour = "white" if abs(value) > 0.65 * limit else "black"
            axis.text(x, y, text, ha="center", va="center", fontsize=6, color=colour)


# --- a recorded group, for the viewer -------------------------------------------------------------------------------


def tasks(batch: RolloutBatch) -> dict[str, int]:
    """Return the groups of a file by a readable name, the most mixed outcomes first."""
    success = [batch.success[batch.trajectory_group == group] for group in range(batch.n_groups)]
    order = sorted(range(batch.n_groups), key=lambda group: abs(success[group].mean() - 0.5))
    return {f"{g}: task {batch.task[g]}, {success[g].sum()} successes": g for g in order}


def one_group(batch: RolloutBatch, number: int) -> RolloutBatch:
    """Return the transitions of one group, without tokens."""
    keys = batch.state_key
    rows = [
        {"uid": number, "task": batch.task[number], "traj": int(batch.trajectory[i]), "t": int(batch.step[i])}
        | {"obs": keys[batch.state[i]], "next": keys[batch.next_state[i]], "r": float(batch.reward[i])}
        | {"done": Terminal(batch.terminal[i]).name if batch.terminal[i] else None, "valid": bool(batch.valid[i])}
        for i in np.flatnonzero(batch.group == number)
    ]
    return RolloutBatch.from_rows(rows)


def transition_table(batch: RolloutBatch) -> pd.DataFrame:
    """Return one row per transition: its position, the terms of Gated-BEPO, and every estimator's advantage."""
    graph, terms = RolloutGraph(batch), GatedBEPO()(batch).terms
    table = pd.DataFrame({"episode": batch.trajectory, "step": batch.step, "state": batch.state})
    table["next"] = [ENDS.get(s, s) for s in batch.successor]
    table = table.assign(visits=graph.visits[batch.state], branches=graph.branches[batch.state], gate=terms["rho"])
    table = table.assign(value=terms["value"], residual=terms["residual"], **advantages(batch))
    return table.assign(text=[batch.state_key[s] for s in batch.state]).round(3)


def view(batch: RolloutBatch, values: np.ndarray, title: str) -> Figure:
    """Return a picture with ``values`` (one per transition) on edges, and each state's number and fixed-point value."""
    place = layout(batch)
    rows = max(np.unique([x for x, _ in place.values()], return_counts=True)[1])
    figure, (axis,) = panels(1, 1, PAGE, max(2.5, 0.35 * rows))
    value = GatedBEPO(solver="exact")(batch).terms["value"]
    text = {batch.state_key[s]: f"{s}\n{v:.1f}".replace("-0.0", "0.0") for s, v in zip(batch.state, value)}
    limit = float(np.abs(values).max()) or 1.0
    draw(axis, batch, place, values, text, limit, size=16)
    figure.set_layout_engine("none")
    axis.set_position((0.01, 0.02, 0.87, 0.96))
    scale = ScalarMappable(Normalize(-limit, limit), SIGNED_LINES)
    figure.colorbar(scale, cax=figure.add_axes((0.9, 0.15, 0.015, 0.7))).set_label(title)
    return figure


# --- how sweeps approach the fixed point of a recorded group ----------------------------------------------------------


def convergence(batch: RolloutBatch, gamma: float = 0.95, gae_lambda: float = 0.8, sweeps: int = 200) -> pd.DataFrame:
    """Return one row per sweep; each column is a maximum over the group.

    ``change``: of a value. ``error``: distance of a value to the exact fixed point. ``bound``: the certificate's bound
    on the error. ``centring``: the centring error. ``advantage``: distance of the standardised step advantage to the
    exact one.
    """
    graph = RolloutGraph(batch)

    def advantage(value: np.ndarray) -> np.ndarray:
        return standardise(gae(batch, graph.residuals(value, gamma), gamma, gae_lambda), batch.group_start)

    exact = solve(graph, gamma).value
    target = advantage(exact)
    iterates = iterate(graph, gamma, sweeps, tolerance=0.0).iterates
    table = pd.DataFrame({"sweep": range(len(iterates))})
    table["change"] = [np.nan, *(np.abs(after - before).max() for before, after in pairwise(iterates))]
    table["error"] = [np.abs(value - exact).max() for value in iterates]
    table["bound"] = gamma * table["change"] / (1 - gamma)
    table["centring"] = [centring_error(graph, graph.residuals(value, gamma)) for value in iterates]
    table["advantage"] = [np.abs(advantage(value) - target).max() for value in iterates]
    return table


def convergence_picture(table: pd.DataFrame) -> Figure:
    """Draw the table of ``convergence`` on logarithmic axes."""
    if not table[["error", "advantage"]].to_numpy().any():  # zero has no logarithm
        figure, (axis,) = panels(1, 1, PAGE, 2.4)
        nothing(axis, "nothing to solve: without sweeps the values are the fixed point")
        return figure
    figure, (values, advantages) = panels(1, 2, PAGE, 2.4, sharex=True)
    for name, (label, dash) in _VALUES.items():
        values.plot(table["sweep"], table[name], dash, color=method_colour("gated_bepo"), label=label)
    values.legend(loc="best")
    advantages.plot(table["sweep"], table["advantage"], color=method_colour("gated_bepo"))
    for axis, label in ((values, "Largest over states"), (advantages, "Largest |A - A*| over transitions")):
        axis.set(xlabel="Bellman sweeps", ylabel=label, yscale="log")
        axis.axvline(_BUDGET, color=GREY, linewidth=0.8, linestyle="--")
        axis.set_ylim(bottom=1e-12)
    return figure
