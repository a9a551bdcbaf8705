"""The truth about a policy: values, advantages, occupancies and the policy gradient, by dynamic programming.

Everything is known for each hidden state and each number of steps that were made. Sizes: G policies, each in one world
of a batch; H steps; S states; A actions. A policy is an array of probabilities (G, S, A), equal for states of one key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from bepo.lab.worlds import Worlds

Objective = Literal["success", "return"]


@dataclass(frozen=True)
class Values:
    """Values and action values of G policies. An episode that has ended is worth 1 after success, else 0."""

    value: Float[np.ndarray, "H_plus_1 G S_plus_2"]  # the last two columns: success and failure; after H steps 0
    action_value: Float[np.ndarray, "H G S A"]

    @property
    def advantage(self) -> Float[np.ndarray, "H G S A"]:
        """Q - V."""
        return self.action_value - self.value[:-1, :, :-2, None]


def values(
    worlds: Worlds,
    which: Int[np.ndarray, " G"],
    policy: Float[np.ndarray, "G S A"],
    objective: Objective = "success",
    gamma: float = 1.0,
) -> Values:
    """Return the values of policies, of success or of the return, discounted by ``gamma`` a step.

    ``which`` is the world of each policy. With ``objective="success"`` a success pays 1 and nothing else pays.
    """
    horizon, slip = worlds.dials.horizon, worlds.dials.slip
    following = worlds.next[which].reshape(len(which), -1)
    pays = worlds.won[which].astype(float) if objective == "success" else worlds.reward[which]
    value = np.zeros((horizon + 1, len(which), worlds.n_states + 2))
    action_value = np.zeros((horizon, *policy.shape))
    for t in range(horizon - 1, -1, -1):
        after = np.take_along_axis(value[t + 1], following, 1).reshape(policy.shape)
        q = pays + gamma * after
        action_value[t] = (1 - slip) * q + slip * q.mean(-1, keepdims=True)
        value[t, :, :-2] = (policy * action_value[t]).sum(-1)
    return Values(value, action_value)


def success(
    worlds: Worlds, which: Int[np.ndarray, " G"], policy: Float[np.ndarray, "G S A"]
) -> Float[np.ndarray, " G"]:
    """Return the probability that each policy succeeds from its start."""
    return values(worlds, which, policy).value[0, np.arange(len(which)), worlds.start[which]]


def occupancy(
    worlds: Worlds, which: Int[np.ndarray, " G"], policy: Float[np.ndarray, "G S A"]
) -> Float[np.ndarray, "H G S"]:
    """Return the probability of being in each state after t steps, in an episode that has not ended."""
    horizon, slip, n = worlds.dials.horizon, worlds.dials.slip, worlds.n_states + 2
    executed = (1 - slip) * policy + slip / worlds.n_actions
    reached = np.zeros((horizon, len(which), worlds.n_states))
    reached[0, np.arange(len(which)), worlds.start[which]] = 1.0
    target = np.arange(len(which))[:, None, None] * n + worlds.next[which]
    for t in range(horizon - 1):
        mass = reached[t, :, :, None] * executed
        arrived = np.bincount(target.ravel(), weights=mass.ravel(), minlength=len(which) * n)
        reached[t + 1] = arrived.reshape(len(which), n)[:, :-2]
    return reached


def gradient(
    worlds: Worlds, which: Int[np.ndarray, " G"], policy: Float[np.ndarray, "G S A"]
) -> Float[np.ndarray, "G S A"]:
    """Return the gradient of success by the logits of each key of the policy; 0 for states with another's key.

    d J / d z(k, a) = sum over t and states s with key k of d_t(s) pi(a | k) A_t(s, a).
    """
    weight = occupancy(worlds, which, policy)
    of_states = (weight[..., None] * policy * values(worlds, which, policy).advantage).sum(0)
    return by_key(worlds, which, of_states)


def by_key(
    worlds: Worlds, which: Int[np.ndarray, " G"], of_states: Float[np.ndarray, "G S A"]
) -> Float[np.ndarray, "G S A"]:
    """Add up what states with the same key of the policy have, at the state whose key it is."""
    of_keys = np.zeros_like(of_states)
    groups = np.arange(len(which))[:, None]
    np.add.at(of_keys, (groups, worlds.policy_key[which]), of_states)
    return of_keys
