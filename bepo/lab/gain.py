"""What an update of a few groups gains: the exact rise in success when the policy moves by a fixed divergence.

Sizes: P policies, S states, A actions, N transitions, H steps.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bepo.lab.probe import Probe, ratio, slopes
from bepo.lab.truth import occupancy, success

KL = 0.1
"""Mean divergence a visited step by which the policy moves."""
TRAJECTORIES = 32
"""Trajectories of each policy in one update."""
_MOST_UPDATES = 16
_BISECTIONS = 60


def gain(estimate: Float[np.ndarray, " N"], probe: Probe) -> Float[np.ndarray, " P"]:
    """Return the rise in success along an estimate's update, as a share of the rise along the true gradient.

    An update is the policy gradient by logits of 32 trajectories of a policy, and moves it by a mean KL of 0.1 a step.
    The mean over at most 16 updates is returned; 0 where the true gradient does not rise.
    """
    batch, n = probe.rollouts.batch, len(probe.which)
    size = np.bincount(probe.owner, minlength=n).min()  # groups of a policy
    each = min(max(TRAJECTORIES * batch.n_groups // batch.n_trajectories, 1), size)
    order = np.argsort(probe.owner, kind="stable")
    number = np.empty(len(order), int)
    number[order] = np.arange(len(order)) - np.searchsorted(probe.owner[order], probe.owner[order])
    update = (number // each)[batch.group]
    occupied = occupancy(probe.worlds, probe.which, probe.policy).sum(0)
    start = success(probe.worlds, probe.which, probe.policy)
    rises = [
        _rise(probe, occupied, _direction(np.where(update == i, estimate, 0.0), probe)) - start
        for i in range(min(size // each, _MOST_UPDATES))
    ]
    return ratio(np.mean(rises, axis=0), _rise(probe, occupied, probe.gradient) - start)


def moved(
    policy: Float[np.ndarray, "P S A"],
    direction: Float[np.ndarray, "P S A"],
    weight: Float[np.ndarray, "P S"],
    kl: float,
) -> Float[np.ndarray, "P S A"]:
    """Return policy * exp(eta * direction), normalised; eta so that the weighted mean KL over states is ``kl``.

    A policy whose direction is 0 stays as it is. One that cannot move so far moves by 1e6 root mean squares.
    """
    share = weight / weight.sum(-1, keepdims=True)
    scale = np.sqrt((share[..., None] * policy * direction**2).sum((1, 2)))[:, None, None]
    unit = np.divide(direction, scale, out=np.zeros_like(direction), where=scale > 0)
    low, high = np.zeros(len(policy)), np.full(len(policy), 1e6)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        near = _kl(policy, unit, share, middle) < kl
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    return _tilted(policy, unit, low)[0]


def _tilted(policy: np.ndarray, unit: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moved policy, and the logarithm of its ratio to the old one."""
    tilt = eta[:, None, None] * unit
    most = np.where(policy > 0, tilt, -np.inf).max(-1, keepdims=True)
    total = (policy * np.exp(np.minimum(tilt - most, 0.0))).sum(-1, keepdims=True)
    log = tilt - most - np.log(total)
    return policy * np.exp(np.minimum(log, 700.0)), log


def _kl(policy: np.ndarray, unit: np.ndarray, share: np.ndarray, eta: np.ndarray) -> np.ndarray:
    tilted, log = _tilted(policy, unit, eta)
    return (share * (tilted * log).sum(-1)).sum(-1)


def _direction(estimate: np.ndarray, probe: Probe) -> np.ndarray:
    """Return the policy gradient of each policy's transitions by the logits of its keys, (P, S, A)."""
    key = probe.worlds.policy_key[probe.world, probe.rollouts.state]
    n, states = len(probe.which), probe.worlds.n_states
    columns = slopes(estimate, probe, key, probe.of.astype(np.int64) * states + key, n * states)
    return np.stack(list(columns), axis=-1).reshape(n, states, -1)


def _rise(probe: Probe, occupied: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return the success of the policies, moved along a direction by keys."""
    every = np.take_along_axis(direction, probe.worlds.policy_key[probe.which][..., None], 1)
    return success(probe.worlds, probe.which, moved(probe.policy, every, occupied, KL))
