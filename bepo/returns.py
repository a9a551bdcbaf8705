"""Returns, the GAE recursion and group statistics, all in float64 over flat records."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from bepo.rollout import RolloutGroup, run_starts

EPSILON = 1e-6  # added to every standard deviation, as in verl-agent
TIE = 1e-9  # a spread below TIE * scale is rounding, not signal

Std = Literal["sample", "population", "none"]


def backward_recursion(
    group: RolloutGroup, x: Float[np.ndarray, "... N"], decay: float | Float[np.ndarray, " N"]
) -> Float[np.ndarray, "... N"]:
    """``y_i = x_i + decay_i * y_{i+1}`` along each trajectory, with ``y = 0`` after its last record."""
    steps, trajectories = int(group.step.max()) + 1, group.n_trajectories
    y = np.zeros((steps, *x.shape[:-1], trajectories))
    at = (group.step, ..., group.trajectory)
    y[at] = np.moveaxis(x, -1, 0)
    if np.ndim(decay):
        table = np.zeros((steps, trajectories))
        table[group.step, group.trajectory] = decay
    else:
        table = np.broadcast_to(float(decay), (steps, 1))
    for t in range(steps - 2, -1, -1):
        y[t] += table[t] * y[t + 1]
    return np.moveaxis(y[at], 0, -1)


def discounted_returns(group: RolloutGroup, gamma: float) -> Float[np.ndarray, " N"]:
    """``G_t = sum_k gamma^k r_{t+k}`` along each trajectory."""
    return backward_recursion(group, group.reward, gamma)


def gae(
    group: RolloutGroup, residual: Float[np.ndarray, "... N"], gamma: float, gae_lambda: float
) -> Float[np.ndarray, "... N"]:
    """Generalised advantage estimation over given TD residuals (paper, Eq. fp_gae; Schulman et al., 2016)."""
    return backward_recursion(group, residual, gamma * gae_lambda)


def standardise(
    x: Float[np.ndarray, " n"],
    ids: Int[np.ndarray, " n"],
    n_ids: int,
    std: Std = "sample",
    starts: Int[np.ndarray, " k"] | None = None,
) -> Float[np.ndarray, " n"]:
    """Centre ``x`` within each id and, unless ``std="none"``, divide by the id's standard deviation + 1e-6.

    ``ids`` must be sorted. An id whose values are all equal gives exactly 0: in floating point the quotient of two
    rounding errors would otherwise reach 0.7 (docs/credit.md, "Ties").
    """
    if starts is None:
        starts = run_starts(ids)
    count = np.maximum(np.bincount(ids, minlength=n_ids), 1)
    centred = x - (np.bincount(ids, weights=x, minlength=n_ids) / count)[ids]
    centred[tied(x, ids, n_ids, starts)] = 0.0
    if std == "none":
        return centred
    freedom = np.maximum(count - 1, 1) if std == "sample" else count
    variance = np.bincount(ids, weights=centred * centred, minlength=n_ids) / freedom
    return centred / (np.sqrt(variance) + EPSILON)[ids]


def tied(
    x: Float[np.ndarray, " n"], ids: Int[np.ndarray, " n"], n_ids: int, starts: Int[np.ndarray, " k"]
) -> Bool[np.ndarray, " n"]:
    """Which entries belong to an id whose values are all equal up to rounding (singletons included)."""
    high, low = np.maximum.reduceat(x, starts), np.minimum.reduceat(x, starts)
    flat = np.zeros(n_ids, bool)
    flat[ids[starts]] = high - low <= TIE * np.maximum(np.abs(high), np.abs(low))
    return flat[ids]


def outcome_advantage(
    group: RolloutGroup,
    pool: Literal["record", "trajectory"] = "record",
    std: Std = "sample",
    invalid_penalty: float = 0.0,
    singleton: Literal["zero", "raw"] = "zero",
) -> Float[np.ndarray, " N"]:
    """Group-relative outcome advantage of each record (paper, Eq. outcome_advantage).

    Every record carries its trajectory's undiscounted return, less ``invalid_penalty`` on that record alone where
    its action is invalid (verl-agent's ``apply_invalid_action_penalty``). ``pool="record"`` takes mean and deviation
    over records, so that long trajectories weigh more; ``"trajectory"`` takes them over trajectories, each once, with
    its return. Where all returns are equal there is no deviation to divide by, and only the penalty remains.
    A pool of one gives 0, or its own score with ``singleton="raw"``.
    """
    score = group.episode_return[group.trajectory] - invalid_penalty * ~group.valid
    if pool == "record":
        advantage = standardise(score, group.group, group.n_groups, std, group.group_start)
        size = group.group_size[group.group]
    else:
        advantage = _against_trajectories(group, score, std)
        size = np.bincount(group.trajectory_group, minlength=group.n_groups)[group.group]
    return np.where(size == 1, score, advantage) if singleton == "raw" else advantage


def _against_trajectories(group: RolloutGroup, score: np.ndarray, std: Std) -> np.ndarray:
    """Scores of records, standardised by the mean and deviation of the trajectories' returns."""
    value, ids, n = group.episode_return, group.trajectory_group, group.n_groups
    count = np.bincount(ids, minlength=n)
    mean = np.bincount(ids, weights=value, minlength=n) / count
    centred = score - mean[group.group]
    centred[np.abs(centred) <= TIE * np.abs(score)] = 0.0
    if std == "none":
        return centred
    freedom = np.maximum(count - 1, 1) if std == "sample" else count
    deviation = np.sqrt(np.bincount(ids, weights=(value - mean[ids]) ** 2, minlength=n) / freedom) + EPSILON
    deviation[ids[tied(value, ids, n, run_starts(ids))]] = 1.0
    return centred / deviation[group.group]


def standardise_by_state(group: RolloutGroup, x: Float[np.ndarray, " N"], std: Std) -> Float[np.ndarray, " N"]:
    """``standardise`` within each state; a state with one record gives 0."""
    order, _, starts = group.by_state
    out = np.empty(len(group))
    out[order] = standardise(x[order], group.state[order], group.n_states, std, starts)
    return out
