"""Policies of the lab: softmax over logits that are sums of features, and a start of a chosen success rate.

A world whose states each have a feature of their own makes this a tabular policy. Sizes as in ``truth``; n features.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import beta

from bepo.core.errors import UserError
from bepo.lab.truth import success
from bepo.lab.worlds import Worlds

_MANY = 8
_SCALES = np.linspace(-8.0, 24.0, 65)
"""Scales of logits that are searched."""
_TOLERANCE = 0.01


def softmax(logits: Float[np.ndarray, "*x A"]) -> Float[np.ndarray, "*x A"]:
    """Return probabilities over the last axis."""
    scaled = np.exp(logits - logits.max(-1, keepdims=True))
    return scaled / scaled.sum(-1, keepdims=True)


def listed_softmax(worlds: Worlds, which: Int[np.ndarray, " G"], logits: Float[np.ndarray, "G S A"]) -> np.ndarray:
    """Return probabilities over the actions that each world lists, (G, S, A)."""
    return softmax(np.where(worlds.listed[which], logits, -np.inf))


def log_linear(
    worlds: Worlds,
    which: Int[np.ndarray, " G"],
    weights: Float[np.ndarray, "P n A"],
    owner: Int[np.ndarray, " G"],
) -> Float[np.ndarray, "G S A"]:
    """Return the policies of P weight tables; ``owner`` says which table each of the G policies has."""
    return listed_softmax(worlds, which, weights[owner[:, None, None], worlds.features[which]].sum(2))


def noisy_expert(worlds: Worlds, noise: float | None = None, seed: int = 0) -> Float[np.ndarray, "B S A"]:
    """Return logits that prefer moves towards success, with Gaussian noise, equal for states of one policy key.

    By default its deviation is 0.5, and 0.2 with eight actions or more: among many actions another one would often win.
    """
    noise = noise if noise is not None else 0.5 if worlds.n_actions < _MANY else 0.2
    rng = np.random.default_rng(seed)
    here, there = (
        worlds.distance[:, :-2, None],
        np.take_along_axis(worlds.distance, worlds.next.reshape(worlds.n_worlds, -1), 1).reshape(worlds.next.shape),
    )
    gain = np.where(np.isnan(there), -1.0, np.clip(here - there, -1, 1))
    noisy = np.where(np.isnan(here), 0.0, gain) + noise * rng.standard_normal(gain.shape)
    rows = np.arange(worlds.n_worlds)[:, None]
    total, count = np.zeros_like(noisy), np.zeros(noisy.shape[:2])
    np.add.at(total, (rows, worlds.policy_key), noisy)
    np.add.at(count, (rows, worlds.policy_key), 1.0)
    return (total / np.maximum(count, 1)[..., None])[rows, worlds.policy_key]


def at_success(
    worlds: Worlds, logits: Float[np.ndarray, "B S A"], rate: float | Float[np.ndarray, " B"]
) -> Float[np.ndarray, "B S A"]:
    """Return the policies with these logits, each world's scaled so that it succeeds with probability ``rate``.

    Success need not grow with the scale: logits whose best action is wrong somewhere never succeed when they are large.
    A world that the whole range of scales misses is searched again below its best scale. Raises ``UserError`` for a
    world in which no scale reaches the rate (to 1 %).
    """
    rate = np.broadcast_to(rate, worlds.n_worlds)
    policy = _bisected(worlds, logits, rate, np.full(worlds.n_worlds, _SCALES[-1]))
    if _off(worlds, policy, rate).any():
        reached = _reached(worlds, logits)
        again = _bisected(worlds, logits, rate, _SCALES[reached.argmax(0)])
        policy = np.where(_off(worlds, policy, rate)[:, None, None], again, policy)
        if (off := _off(worlds, policy, rate)).any():
            bad = int(np.flatnonzero(off)[0])
            least, most = reached[:, bad].min(), reached[:, bad].max()
            raise UserError(
                f"success={rate[bad]:.3g}: world {worlds.worlds[bad].name} reaches {least:.3f} to {most:.3f} only"
            )
    return policy


def spread_rates(
    worlds: Worlds, logits: Float[np.ndarray, "B S A"], rate: float, icc: float
) -> Float[np.ndarray, " B"]:
    """Return a success rate for each world: quantiles of the beta distribution with mean ``rate`` and this ICC.

    Then ``icc`` is the share of the variance of success between worlds. Higher rates go to worlds that can reach more;
    a rate beyond what a world reaches is cut off there.
    """
    if icc == 0:
        return np.full(worlds.n_worlds, rate)
    reached, n = _reached(worlds, logits), worlds.n_worlds
    pseudo = (1 - icc) / icc  # the sum of the distribution's two parameters
    wanted = beta.ppf((np.arange(n) + 0.5) / n, rate * pseudo, (1 - rate) * pseudo)
    spread = np.empty(n)
    spread[reached.max(0).argsort(kind="stable")] = wanted
    return np.clip(spread, reached.min(0), reached.max(0) - _TOLERANCE / 2)


def _reached(worlds: Worlds, logits: np.ndarray) -> np.ndarray:
    """Return the success of each world at each scale."""
    return np.stack([_success(worlds, scaled(worlds, logits, np.full(worlds.n_worlds, x))) for x in _SCALES])


def scaled(worlds: Worlds, logits: Float[np.ndarray, "B S A"], scale: Float[np.ndarray, " B"]) -> np.ndarray:
    """Return the policy of each world whose logits are multiplied by its scale, (B, S, A)."""
    return listed_softmax(worlds, np.arange(worlds.n_worlds), logits * scale[:, None, None])


def _bisected(worlds: Worlds, logits: np.ndarray, rate: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the policies at a scale below ``high`` (B,) where success crosses ``rate``, if it is above it there."""
    low = np.full(worlds.n_worlds, _SCALES[0])
    for _ in range(40):
        middle = (low + high) / 2
        above = _success(worlds, scaled(worlds, logits, middle)) > rate
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return scaled(worlds, logits, (low + high) / 2)


def _success(worlds: Worlds, policy: np.ndarray) -> np.ndarray:
    return success(worlds, np.arange(worlds.n_worlds), policy)


def _off(worlds: Worlds, policy: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return the mask of the worlds that miss the rate, (B,) bool."""
    return np.abs(_success(worlds, policy) - rate) > _TOLERANCE
