"""The expert of environments with a table of their transitions, found by value iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

_DISCOUNT, _PRECISION = 0.99, 1e-10


def has_table(env: Any) -> bool:
    """Return whether an environment has Gymnasium's table ``P[state][action]`` of (p, next, reward, end).

    Its states and actions are those of the spaces, so that an observation is a row of the table.
    """
    table, sizes = vars(env.unwrapped).get("P"), [getattr(s, "n", 0) for s in (env.observation_space, env.action_space)]
    if not isinstance(table, dict) or [*table] != [*range(sizes[0])]:
        return False
    rows = [actions for actions in table.values() if isinstance(actions, dict) and [*actions] == [*range(sizes[1])]]
    outcomes = [outcome for row in rows for some in row.values() if isinstance(some, list) for outcome in some]
    return len(rows) == sizes[0] > 0 < len(outcomes) and all(isinstance(x, tuple) and len(x) == 4 for x in outcomes)


def best_actions(table: dict[int, dict[int, list[tuple]]], ends_in_success: bool) -> Int[np.ndarray, " S"]:
    """Return an optimal action for each state at a discount of 0.99; -1 where success is out of reach.

    A transition is a success if it ends the episode with a reward above 0, or with any reward if ``ends_in_success``.
    """
    rows: list[tuple[Any, ...]] = [
        (state, action, probability, after, reward, end)
        for state, actions in table.items()
        for action, outcomes in actions.items()
        for probability, after, reward, end in outcomes
    ]
    state, action, probability, after, reward, end = (np.array(column) for column in zip(*rows))
    states, actions = int(state.max()) + 1, int(action.max()) + 1
    success = end.astype(bool) & ((reward > 0) | ends_in_success)
    value, change = np.zeros(states), np.inf
    quality = np.zeros((states, actions))
    while change > _PRECISION:
        quality = np.zeros((states, actions))
        np.add.at(quality, (state, action), probability * (reward + _DISCOUNT * value[after] * ~end.astype(bool)))
        change = float(np.abs(quality.max(1) - value).max())
        value = quality.max(1)
    return np.where(_can_succeed(states, state, after, success), _argmax(quality), -1)


def _can_succeed(
    states: int, state: Int[np.ndarray, " n"], after: Int[np.ndarray, " n"], success: Bool[np.ndarray, " n"]
) -> Bool[np.ndarray, " S"]:
    """Return from which states success has a probability above 0; rows are transitions."""
    can = np.zeros(states, bool)
    while True:
        more = can.copy()
        more[state[success | can[after]]] = True
        if (more == can).all():
            return can
        can = more


def _argmax(quality: Float[np.ndarray, "S A"]) -> Int[np.ndarray, " S"]:
    """Return the first best action of each state; values that differ only by rounding count as equal."""
    return (quality >= quality.max(1, keepdims=True) - 1e-8).argmax(1)
