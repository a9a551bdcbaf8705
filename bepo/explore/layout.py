"""Layout of a rollout graph: columns by the distance from the start, with few crossing edges."""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int]
_SWEEPS = 6


def layout(edges: Sequence[Edge], starts: Sequence[int]) -> dict[int, tuple[int, float]]:
    """Return (column, row) of each node. Negative nodes are absorbing ends and are in the last column.

    Rows are centred: 0 is the middle. Nodes of a column are ordered by the mean row of their neighbours, in several
    passes from left to right and back (Sugiyama's barycentre heuristic).
    """
    column = _columns(edges, starts)
    neighbours: dict[int, list[int]] = {node: [] for node in column}
    for source, target in edges:
        if source != target:
            neighbours[source].append(target)
            neighbours[target].append(source)
    layers: dict[int, list[int]] = {}
    for node in column:
        layers.setdefault(column[node], []).append(node)
    row = {node: y for layer in layers.values() for node, y in _centred(layer)}
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for number in sorted(layers, reverse=step < 0):
            layers[number].sort(key=lambda node: _mean_row(node, neighbours[node], row, column, step))
            row |= dict(_centred(layers[number]))
    return {node: (column[node], row[node]) for node in column}


def _columns(edges: Sequence[Edge], starts: Sequence[int]) -> dict[int, int]:
    following: dict[int, list[int]] = {}
    for source, target in edges:
        following.setdefault(source, []).append(target)
    column = dict.fromkeys(starts, 0)
    frontier = list(column)
    while frontier:
        new = [t for s in frontier for t in following.get(s, ()) if t >= 0 and t not in column]
        depth = column[frontier[0]] + 1
        frontier = list(dict.fromkeys(new))
        column |= dict.fromkeys(frontier, depth)
    last = max(column.values()) + 1
    return column | {target: last for _, target in edges if target < 0}


def _centred(layer: Sequence[int]) -> list[tuple[int, float]]:
    return [(node, i - (len(layer) - 1) / 2) for i, node in enumerate(layer)]


def _mean_row(node: int, neighbours: list[int], row: dict[int, float], column: dict[int, int], step: int) -> float:
    """Return the mean row of a node's neighbours on the side where the pass comes from, or its own row."""
    before = [row[n] for n in neighbours if (column[node] - column[n]) * step > 0]
    return sum(before) / len(before) if before else row[node]
