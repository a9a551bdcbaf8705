"""How close estimated advantages are to the true ones, and what gradient they give.

An estimate is compared with the true advantage of success, A = Q - V, at (hidden state, steps made). Sizes: N
transitions of G groups; P policies, each in one of B worlds.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bepo.lab.gain import gain
from bepo.lab.probe import CLEAR, Probe, ratio, slopes

MEASURES = {
    "error": "share of the true advantage's square that is missed, after the best scale (0 perfect, 1 no signal)",
    "raw_error": "the same without a scale",
    "bias2": "squared bias of the mean over groups at the best scale, as a share of the true square",
    "variance": "variance over groups at the best scale, as a share of the true square",
    "sign_error": "share of transitions of the wrong sign where |A| > 0.05; an estimate of 0 counts half",
    "wrong_mass": "share of sum |estimate| that has the wrong sign where |A| > 0.05",
    "rank": "Kendall's tau of two actions in one state of a group",
    "gradient_cosine": "mean cosine between a group's gradient and the true one",
    "gradient_efficiency": "E<g, true> / (|true| sqrt(E|g|^2)): how much of a group's gradient is progress",
    "gradient_norm": "sqrt(E|g|^2) / |true|",
    "gain": "rise in success by an update of 32 trajectories and a KL of 0.1 a step, as a share of that along the true "
    "gradient",
    "zero": "share of transitions with an advantage of exactly 0",
}
"""What is measured of an estimator, for each world."""
_TIE = 1e-9


def fidelity(estimate: Float[np.ndarray, " N"], probe: Probe) -> dict[str, Float[np.ndarray, " P"]]:
    """Return every measure of ``MEASURES`` for each policy."""
    true = probe.advantage
    square, power = probe.mean(true * true), probe.mean(estimate * estimate)
    product = probe.mean(estimate * true)
    scale = ratio(product, power)
    clear = (np.abs(true) > CLEAR).astype(float)
    wrong = np.where(estimate == 0, 0.5, np.sign(estimate) != np.sign(true))
    bias2, variance = _bias_and_variance(estimate, probe, scale)
    return {
        "error": 1 - ratio(product * product, power * square),
        "raw_error": ratio(probe.mean((estimate - true) ** 2), square),
        "bias2": bias2,
        "variance": variance,
        "sign_error": probe.mean(wrong, clear),
        "wrong_mass": probe.mean((np.sign(estimate) != np.sign(true)).astype(float), clear * np.abs(estimate)),
        "rank": _rank(estimate, probe),
        **_gradients(estimate, probe),
        "gain": gain(estimate, probe),
        "zero": probe.mean((estimate == 0).astype(float)),
    }


def _rank(estimate: np.ndarray, probe: Probe) -> np.ndarray:
    first, second = probe.pairs
    n, of = len(probe.which), probe.of[first]
    difference = estimate[first] - estimate[second]
    order = np.where(np.abs(difference) < _TIE, 0.0, np.sign(difference))
    agree = order * np.sign(probe.advantage[first] - probe.advantage[second])
    counts = np.bincount(of, minlength=n).astype(float)
    return ratio(np.bincount(of, weights=agree, minlength=n), counts)


def _bias_and_variance(estimate: np.ndarray, probe: Probe, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared bias and variance of scaled estimates over a policy's transitions, as shares of the true square.

    What a group has in a cell is one observation. The variance is that between groups; what it adds to the square of a
    cell's mean is taken off the bias. Cells with fewer than five groups tell too little and are left out.
    """
    cell, pair = probe.cells
    n_cells = int(cell.max()) + 1
    count = np.bincount(pair)
    observed = np.bincount(pair, weights=estimate * scale[probe.of]) / count
    cell_of = np.zeros(len(count), int)
    cell_of[pair] = cell
    n = np.bincount(cell_of, minlength=n_cells)
    mean = np.bincount(cell_of, weights=observed, minlength=n_cells) / n
    spread = np.bincount(cell_of, weights=(observed - mean[cell_of]) ** 2, minlength=n_cells)
    variance = spread / np.maximum(n - 1, 1)
    true = np.zeros(n_cells)
    true[cell] = probe.advantage
    bias2 = (mean - true) ** 2 - variance / n
    enough = (n >= 5)[cell].astype(float)
    square = probe.mean(probe.advantage**2, enough)
    return ratio(probe.mean(bias2[cell], enough), square), ratio(probe.mean(variance[cell], enough), square)


def _gradients(estimate: np.ndarray, probe: Probe) -> dict[str, np.ndarray]:
    """Compare the policy gradient of each group with the true one, by keys."""
    worlds, rollouts, batch = probe.worlds, probe.rollouts, probe.rollouts.batch
    key = worlds.policy_key[probe.world, rollouts.state]
    visited, place = np.unique(batch.group.astype(np.int64) * worlds.n_states + key, return_inverse=True)
    group, key_of = visited // worlds.n_states, visited % worlds.n_states
    true = probe.gradient.reshape(len(probe.which), -1)
    dot, square = np.zeros(batch.n_groups), np.zeros(batch.n_groups)
    for action, slope in enumerate(slopes(estimate, probe, key, place, len(visited))):
        goal = probe.gradient[probe.owner[group], key_of, action]
        dot += np.bincount(group, weights=slope * goal, minlength=batch.n_groups)
        square += np.bincount(group, weights=slope * slope, minlength=batch.n_groups)
    length = np.sqrt((true * true).sum(1))

    def mean(x: np.ndarray) -> np.ndarray:
        groups = np.bincount(probe.owner, minlength=len(probe.which))
        return np.bincount(probe.owner, weights=x, minlength=len(probe.which)) / groups

    norm = np.sqrt(mean(square))
    return {
        "gradient_cosine": mean(ratio(dot, np.sqrt(square) * length[probe.owner])),
        "gradient_efficiency": ratio(mean(dot), length * norm),
        "gradient_norm": ratio(norm, length),
    }
