"""Plain rows to the columns of a rollout batch."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from bepo.core.errors import UserError
from bepo.core.interning import interned, interned_actions, interned_states, interner, run_starts
from bepo.core.terminal import Terminal
from bepo.core.tokens import Tokens

_KNOWN = frozenset(
    "uid traj t task obs next r done valid action task_score broken".split()
    + "prompt_ids response_ids logprobs allowed values image".split()
)


def columns_of(rows: Iterable[Mapping[str, Any]], ignored: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a ``RolloutBatch`` for plain rows, which may come in any order.

    Keys of a row: ``uid`` task group, ``traj`` trajectory, ``t`` step, ``obs`` and ``next`` state keys, ``r`` reward,
    ``done`` (None, ``"success"``, ``"failure"``, ``"truncation"``), ``valid``.

    Optional keys: ``task`` (task id; default: the uid), ``action`` (its words, or None), and the token columns that
    ``Tokens.pack`` reads. ``task_score`` (default: 1 on success, else 0) and ``broken`` (default: False) are read from
    the last row of a trajectory. Every other number that the first row has becomes a column of ``RolloutBatch.extras``,
    except those that are ``ignored``; None and a missing number are NaN.

    Raises ``UserError`` for an empty list.
    """
    rows = list(rows)
    if not rows:
        raise UserError("a rollout batch needs at least one transition")
    uid_of, traj_of = interner(), interner()
    place = [(uid_of(r["uid"]), traj_of((r["uid"], r["traj"])), _step(r["t"])) for r in rows]
    order = sorted(range(len(rows)), key=place.__getitem__)
    extras = [name for name, value in rows[0].items() if name not in _KNOWN.union(ignored) and _is_number(value)]
    rows = [rows[i] for i in order]
    group, _, step = (np.array(column, np.int32) for column in zip(*(place[i] for i in order)))
    source, target, state_key, state_group = interned_states(rows, group)
    terminal = np.array([Terminal.parse(r["done"]) for r in rows], np.int8)
    last = [(r, t == Terminal.SUCCESS) for r, t in zip(rows, terminal) if t != Terminal.NONE]
    action, action_key = interned_actions([r.get("action") for r in rows])
    return {
        "task": [str(rows[i].get("task", rows[i]["uid"])) for i in run_starts(group)],
        "group": group,
        "trajectory": interned([(r["uid"], r["traj"]) for r in rows]),
        "step": step,
        "state": source,
        "next_state": target,
        "terminal": terminal,
        "reward": np.array([r["r"] for r in rows], np.float64),
        "valid": np.array([r["valid"] for r in rows], bool),
        "task_score": np.array([float(r.get("task_score", success)) for r, success in last], np.float64),
        "state_group": state_group,
        "state_key": state_key,
        "row": np.array(order, np.int64),
        "tokens": Tokens.pack(rows) if "response_ids" in rows[0] else None,
        "broken": np.array([r.get("broken", False) for r, _ in last], bool),
        "action": action,
        "action_key": action_key,
        "extras": {name: _column(rows, name) for name in extras},
    }


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool))


def _step(t: object) -> int:
    try:
        return operator.index(t)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise UserError(f"t={t!r:.40} must be a whole number") from None


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Float[np.ndarray, " N"]:
    return np.array([r.get(name, np.nan) for r in rows], np.float64)  # NumPy reads None as NaN
