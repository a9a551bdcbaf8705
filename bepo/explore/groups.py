"""Groups of episodes as plain data. The page shows one group at a time."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.graph import RolloutGraph
from bepo.explore.advantages import Strip, paper_part
from bepo.explore.layout import layout

Plain = dict[str, Any]
Words = tuple[list[str], list[str]]


def groups(batch: RolloutBatch, strips: Sequence[Strip], words: Words | None) -> Iterator[Plain]:
    """Yield each group as a dictionary with ``texts`` (each distinct text once), ``episodes``, ``strips``, ``graph``.

    Episodes refer to texts by their index in ``texts``. Strips are in the order of the group's transitions.
    """
    graph = RolloutGraph(batch)
    value = paper_part(strips, "value")
    ends, actions = np.append(batch.group_start[1:], len(batch)), batch.actions
    for number, (start, end) in enumerate(zip(batch.group_start.tolist(), ends.tolist())):
        at = np.arange(start, end)
        texts, images = _Table(), _Pictures(batch)
        members = _trajectories(batch, at)
        yield {
            "task": batch.task[number],
            "episodes": [_episode(batch, member, actions, words, texts, images) for member in members],
            "strips": [_strip(strip, at) for strip in strips],
            "graph": _graph(batch, graph, at, actions, value, texts),
            "texts": texts.values,
            "images": images.uris,
        }


def _trajectories(batch: RolloutBatch, at: np.ndarray) -> list[np.ndarray]:
    return np.split(at, np.flatnonzero(np.diff(batch.trajectory[at])) + 1)


class _Table:
    """Distinct texts, numbered by first appearance."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._places: dict[str, int] = {}

    def __call__(self, text: str | None) -> int | None:
        if text is None:
            return None
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(text)
        return self._places[text]


class _Pictures:
    """Distinct pictures of a group as data URIs."""

    def __init__(self, batch: RolloutBatch) -> None:
        self._batch = batch
        self.uris: list[str] = []
        self._places: dict[int, int] = {}

    def __call__(self, i: int) -> int | None:
        tokens = self._batch.tokens
        picture = tokens.picture(i) if tokens is not None else None
        if tokens is None or picture is None:
            return None
        which = int(tokens.image[i])
        if which not in self._places:
            self._places[which] = len(self.uris)
            file = BytesIO()
            Image.fromarray(picture).save(file, "PNG")
            self.uris.append("data:image/png;base64," + base64.b64encode(file.getvalue()).decode())
        return self._places[which]


def _episode(
    batch: RolloutBatch,
    at: np.ndarray,
    actions: Sequence[str | None],
    words: Words | None,
    texts: _Table,
    images: _Pictures,
) -> Plain:
    picture = [images(i) for i in at.tolist()]
    spoken = {name: [texts(column[i]) for i in at] for name, column in zip(("prompt", "response"), words or ())}
    return {
        "state": batch.state[at].tolist(),
        "next": batch.successor[at].tolist(),
        "last": texts(batch.state_key[batch.next_state[at[-1]]]),
        "observation": [texts(batch.state_key[s]) for s in batch.state[at]],
        "action": [texts(actions[i]) for i in at],
        "reward": rounded(batch.reward[at]),
        "valid": batch.valid[at].astype(int).tolist(),
        **spoken,
        **({"image": picture} if any(i is not None for i in picture) else {}),
    }


def _strip(strip: Strip, at: np.ndarray) -> Plain:
    parts = {name: rounded(values[at]) for name, values in strip.parts.items()}
    return {"label": strip.label, "own": strip.own, "advantage": rounded(strip.advantage[at]), "parts": parts}


def _graph(
    batch: RolloutBatch,
    graph: RolloutGraph,
    at: np.ndarray,
    actions: Sequence[str | None],
    value: np.ndarray | None,
    texts: _Table,
) -> Plain:
    """Return the group's states with their positions, and its edges with the counts of their actions."""
    source, target = batch.state[at].tolist(), batch.successor[at].tolist()
    taken: dict[tuple[int, int], Counter[str | None]] = {}
    for i, edge in zip(at.tolist(), zip(source, target)):
        taken.setdefault(edge, Counter())[actions[i]] += 1
    starts = list(dict.fromkeys(batch.state[at][batch.step[at] == 0].tolist()))
    place = layout(list(taken), starts)
    worth = {} if value is None else dict(zip(source, rounded(value[at])))
    nodes = [
        {
            "id": node,
            "x": x,
            "y": round(y, 2),
            "text": texts(batch.state_key[node]),
            "visits": int(graph.visits[node]),
            "branches": int(graph.branches[node]),
            "value": worth.get(node),
        }
        if node >= 0
        else {"id": node, "x": x, "y": round(y, 2), "end": Terminal(-node).name.lower()}
        for node, (x, y) in place.items()
    ]
    edges = [[*edge, [[texts(action), n] for action, n in counts.most_common()]] for edge, counts in taken.items()]
    return {"nodes": nodes, "edges": edges}


def rounded(values: np.ndarray) -> list[float | None]:
    """Return numbers for JSON, rounded to four decimals; None for NaN and infinities."""
    return [round(x, 4) if np.isfinite(x) else None for x in values.tolist()]


def summaries(batch: RolloutBatch, gate: np.ndarray | None, kinds: Mapping[str, str]) -> list[Plain]:
    """Return the row of each trajectory in the list of episodes. ``gate``: gate values of transitions, in [0, 1]."""
    steps = (batch.step[batch.last] + 1).astype(int)
    share = np.bincount(batch.trajectory, batch.valid, batch.n_trajectories) / steps
    opened = None if gate is None else np.bincount(batch.trajectory, gate, batch.n_trajectories) / steps
    return [
        {
            "task": (task := batch.task[batch.trajectory_group[m]]),
            "kind": kinds.get(task, ""),
            "end": Terminal(batch.terminal[batch.last[m]]).name.lower(),
            "steps": int(steps[m]),
            "return": round(float(batch.episode_return[m]), 3),
            "score": round(float(batch.task_score[m]), 3),
            "valid": round(float(share[m]), 3),
            "gate": None if opened is None else round(float(opened[m]), 3),
        }
        for m in range(batch.n_trajectories)
    ]
