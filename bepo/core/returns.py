"""Returns, generalised advantage estimation and group statistics, in float64 over the flat arrays of a batch."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.interning import run_starts

EPSILON = 1e-6  # added to every standard deviation, as in verl-agent
TIE = 1e-9  # values that differ by less than TIE * scale count as equal: the difference is rounding

Std = Literal["sample", "population", "none"]
Pool = Literal["transition", "trajectory"]
Singleton = Literal["zero", "raw"]


def backward_recursion(
    batch: RolloutBatch, x: Float[np.ndarray, "... N"], decay: float | Float[np.ndarray, " N"]
) -> Float[np.ndarray, "... N"]:
    """Return ``y_i = x_i + decay_i * y_{i+1}`` along each trajectory, with ``y = 0`` after its last transition."""
    steps, trajectories = int(batch.step.max()) + 1, batch.n_trajectories
    at = batch.step * np.int64(trajectories) + batch.trajectory
    flat = np.zeros((steps * trajectories, *x.shape[:-1]))
    flat[at] = np.moveaxis(x, -1, 0)
    y = flat.reshape(steps, trajectories, -1)  # a view
    table = np.zeros(steps * trajectories)
    table[at] = decay
    table = table.reshape(steps, trajectories, 1)
    for t in range(steps - 2, -1, -1):
        y[t] += table[t] * y[t + 1]
    return np.moveaxis(flat[at], 0, -1)


def discounted_returns(batch: RolloutBatch, gamma: float) -> Float[np.ndarray, " N"]:
    """Return ``G_t = sum_k gamma^k r_{t+k}`` along each trajectory."""
    return backward_recursion(batch, batch.reward, gamma)


def gae(
    batch: RolloutBatch, residual: Float[np.ndarray, "... N"], gamma: float, gae_lambda: float
) -> Float[np.ndarray, "... N"]:
    """Return generalised advantage estimates from TD residuals (paper, Eq. fp_gae; Schulman et al., 2016, Eq. 16)."""
    return backward_recursion(batch, residual, gamma * gae_lambda)


def standardise(
    x: Float[np.ndarray, "... n"], starts: Int[np.ndarray, " k"], std: Std = "sample", floor: float = 0.0
) -> Float[np.ndarray, "... n"]:
    """Subtract the mean of each of k blocks from ``x`` and divide by the block's standard deviation + 1e-6.

    Blocks begin at ``starts``. ``std="none"`` does not divide. The divisor is at least ``floor``. A value that equals
    its block's mean up to rounding gives exactly 0. Without this rule the quotient of two rounding errors would reach
    0.7 (docs/credit.md, "Ties").
    """
    size = np.diff(np.append(starts, x.shape[-1]))
    mean = np.add.reduceat(x, starts, axis=-1) / size
    centred = x - np.repeat(mean, size, axis=-1)
    scale = np.maximum.reduceat(np.abs(x), starts, axis=-1)
    centred[np.abs(centred) <= np.repeat(TIE * scale, size, axis=-1)] = 0.0
    if std == "none":
        return centred
    freedom = np.maximum(size - 1, 1) if std == "sample" else size
    deviation = np.sqrt(np.add.reduceat(centred * centred, starts, axis=-1) / freedom) + EPSILON
    return centred / np.repeat(np.maximum(deviation, floor), size, axis=-1)


def without_rounding(
    x: Float[np.ndarray, "..."], scale: float | Float[np.ndarray, "..."] = 1.0
) -> Float[np.ndarray, "..."]:
    """Return ``x`` with exactly 0 where it is at most TIE * ``scale``: such a difference of two numbers is rounding."""
    return np.where(np.abs(x) <= TIE * scale, 0.0, x)


def tied(x: Float[np.ndarray, "... n"], starts: Int[np.ndarray, " k"]) -> Bool[np.ndarray, "... k"]:
    """Return the mask of the k blocks whose values are all equal up to rounding, shape (k,)."""
    high, low = np.maximum.reduceat(x, starts, axis=-1), np.minimum.reduceat(x, starts, axis=-1)
    return high - low <= TIE * np.maximum(np.abs(high), np.abs(low))


def outcome_advantage(
    batch: RolloutBatch,
    pool: Pool = "transition",
    std: Std = "sample",
    invalid_penalty: float = 0.0,
    singleton: Singleton = "zero",
) -> Float[np.ndarray, " N"]:
    """Return the group-relative outcome advantage of each transition (paper, Eq. outcome_advantage).

    The score of a transition is its trajectory's undiscounted return. ``invalid_penalty`` is subtracted from the score
    of an invalid transition (verl-agent's ``apply_invalid_action_penalty``). ``pool="transition"`` takes mean and
    deviation over transitions, so long trajectories weigh more. ``pool="trajectory"`` takes them over the returns of
    trajectories. If all returns are equal, scores are not divided and only the penalty remains. A pool of one
    transition gives 0, a pool of one trajectory only the penalty. With ``singleton="raw"`` both give the score itself.
    """
    score = batch.episode_return[batch.trajectory] - invalid_penalty * ~batch.valid
    if pool == "transition":
        advantage = standardise(score, batch.group_start, std)
        size = batch.transitions_per_group[batch.group]
    else:
        advantage = _against_trajectories(batch, score, std)
        size = np.bincount(batch.trajectory_group, minlength=batch.n_groups)[batch.group]
    return np.where(size == 1, score, advantage) if singleton == "raw" else advantage


def _against_trajectories(batch: RolloutBatch, score: np.ndarray, std: Std) -> np.ndarray:
    """Standardise the scores of transitions by the mean and deviation of their group's trajectory returns."""
    value, ids, n = batch.episode_return, batch.trajectory_group, batch.n_groups
    count = np.bincount(ids, minlength=n)
    mean = np.bincount(ids, weights=value, minlength=n) / count
    centred = score - mean[batch.group]
    centred[np.abs(centred) <= TIE * np.abs(score)] = 0.0
    if std == "none":
        return centred
    freedom = np.maximum(count - 1, 1) if std == "sample" else count
    deviation = np.sqrt(np.bincount(ids, weights=(value - mean[ids]) ** 2, minlength=n) / freedom) + EPSILON
    deviation[tied(value, run_starts(ids))] = 1.0
    return centred / deviation[batch.group]


def standardise_by_state(batch: RolloutBatch, x: Float[np.ndarray, " N"], std: Std) -> Float[np.ndarray, " N"]:
    """Standardise ``x`` over the transitions of each state. A state with one transition gives 0."""
    order, _, starts = batch.by_state
    out = np.empty(len(batch))
    out[order] = standardise(x[order], starts, std)
    return out


def between_share(x: Float[np.ndarray, " m"], group: Int[np.ndarray, " m"]) -> float:
    """Return the share of the variance of ``x`` that lies between groups, at least 0 (intraclass correlation, ICC).

    The estimate is that of a one-way analysis of variance (Donner, 1986). It is 0 with one group, with groups of one,
    and where all values are equal.
    """
    size = np.bincount(group)
    n, g = len(x), len(size)
    mean = np.bincount(group, weights=x) / size
    within = ((x - mean[group]) ** 2).sum() / max(n - g, 1)
    between = (size * (mean - x.mean()) ** 2).sum() / max(g - 1, 1)
    usual = (n - (size**2).sum() / n) / max(g - 1, 1)  # the size of a group, corrected for unequal ones
    if n == g or g == 1 or np.ptp(x) <= TIE * np.abs(x).max():
        return 0.0
    of_groups = max((between - within) / usual, 0.0)
    return float(of_groups / (of_groups + within))
