"""Policies of the lab: softmax over logits that are sums of features, and a start of a chosen success rate.

A world whose states each have a feature of their own makes this a tabular policy. Sizes as in ``truth``; n features.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from bepo.core.errors import UserError
from bepo.lab.truth import success
from bepo.lab.worlds import Worlds

_MANY = 8


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


def at_success(worlds: Worlds, logits: Float[np.ndarray, "B S A"], rate: float) -> Float[np.ndarray, "B S A"]:
    """Return the policies with these logits, each world's scaled so that it succeeds with probability ``rate``.

    Raises ``UserError`` for a world in which no scale reaches the rate (to 1 %).
    """
    which, low, high = np.arange(worlds.n_worlds), np.full(worlds.n_worlds, -8.0), np.full(worlds.n_worlds, 24.0)
    for _ in range(40):
        middle = (low + high) / 2
        above = success(worlds, which, listed_softmax(worlds, which, logits * middle[:, None, None])) > rate
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    policy = listed_softmax(worlds, which, logits * ((low + high) / 2)[:, None, None])
    reached = success(worlds, which, policy)
    if (off := np.abs(reached - rate) > 0.01).any():
        bad = int(np.flatnonzero(off)[0])
        raise UserError(f"success={rate:g}: world {worlds.worlds[bad].name} reaches {reached[bad]:.3f} at best")
    return policy
