"""The exact expected update of estimators against the true gradient."""

import numpy as np
import pytest

from bepo.core.errors import UserError
from bepo.credit import make
from bepo.lab import bias as exact_bias
from bepo.lab.bias import bias, every_group, expected_update, trajectories
from bepo.lab.controls import CONTROLS
from bepo.lab.policies import noisy_expert, softmax
from bepo.lab.probe import of_estimator
from bepo.lab.truth import success
from bepo.lab.worlds import FAILURE, SUCCESS, World, Worlds, WorldSettings

MOVES = np.array([[1, 0], [2, 0], [SUCCESS, FAILURE]])


@pytest.fixture(scope="module")
def small():
    """A chain of three states with success, failure and time-outs; success pays 1 and nothing else pays."""
    world = World("small", MOVES, 1.0 * (MOVES == SUCCESS), 0, [0, 1, 2], [((s,),) for s in range(3)])
    worlds = Worlds([world], WorldSettings(horizon=4))
    policy = softmax(noisy_expert(worlds, 1.0))
    return worlds, policy, *every_group(worlds, policy, 2)


def test_all_trajectories_are_enumerated(small):
    worlds, policy, every, probability = small
    paths = trajectories(worlds, policy)
    assert sum(p for p, _ in paths) == pytest.approx(1, abs=1e-12)
    assert probability.sum() == pytest.approx(1, abs=1e-12)
    won = every.rollouts.won.reshape(-1, 2).mean(1)
    assert (probability * won).sum() == pytest.approx(success(worlds, np.zeros(1, int), policy)[0], abs=1e-12)


def test_the_limit_is_the_number_of_trajectories_times_the_horizon(small, monkeypatch):
    """Counted before any is enumerated: those that end early and those that the time limit ends."""
    worlds, policy, *_ = small
    paths = trajectories(worlds, policy)
    assert len({len(steps) for _, steps in paths}) > 1
    monkeypatch.setattr(exact_bias, "MOST_TRANSITIONS", len(paths) * 4)
    assert len(trajectories(worlds, policy)) == len(paths)
    monkeypatch.setattr(exact_bias, "MOST_TRANSITIONS", len(paths) * 4 - 1)
    with pytest.raises(UserError, match="too many trajectories"):
        trajectories(worlds, policy)


@pytest.mark.parametrize("name", ["exact", "exact_value", "exact_residual"])
def test_controls_are_unbiased(name, small):
    scale, distance = bias(CONTROLS[name], *small[2:])
    assert scale == pytest.approx(1, abs=1e-12) and distance < 1e-12


def test_leave_one_out_is_unbiased_and_a_group_mean_shrinks(small):
    """REINFORCE with a leave-one-out baseline is unbiased; with the group's mean the update shrinks by (K - 1) / K."""
    plain = {"pool": "trajectory", "invalid_penalty": 0.0}
    scale, distance = bias(of_estimator(make("rloo", **plain)), *small[2:])
    assert scale == pytest.approx(1, abs=1e-12) and distance < 1e-12
    scale, distance = bias(of_estimator(make("grpo", std="none", singleton="zero", **plain)), *small[2:])
    assert scale == pytest.approx(1 / 2, abs=1e-12) and distance < 1e-12


@pytest.fixture(scope="module")
def paid():
    """The same chain, where some steps pay; how long a trajectory lasts depends on the policy."""
    reward = 1.0 * (MOVES == SUCCESS) + np.array([[0.3, 0.0], [0.5, -0.2], [0.0, 0.1]])
    worlds = Worlds([World("paid", MOVES, reward, 0, [0, 1, 2], [((s,),) for s in range(3)])], WorldSettings(horizon=4))
    policy = softmax(noisy_expert(worlds, 1.0))
    return worlds, policy, trajectories(worlds, policy)


def derivative(paid, of):
    """The mean of ``of(steps)`` over trajectories, and its derivative by the logits of each state."""
    _, policy, paths = paid
    mean, slope = 0.0, np.zeros(policy[0].shape)
    for probability, steps in paths:
        value = probability * of(steps)
        mean += value
        for state, action, _, _ in steps:
            slope[state] -= value * policy[0, state]
            slope[state, action] += value
    return mean, slope


@pytest.mark.parametrize("group_size", [2, 3])
def test_mt_grpos_bias_has_a_closed_form(paid, group_size):
    """Step k adds c d(mean reward of those that reach it) instead of d(probability of reaching it x mean reward).

    c = p - (1 - (1 - p)^K) / K, p the probability of reaching step k. So going on has no value of its own.
    """
    worlds, policy, _ = paid
    expected, true = np.zeros(policy[0].shape), np.zeros(policy[0].shape)
    for k in range(worlds.dials.horizon):
        reach, slope_of_reach = derivative(paid, lambda steps, k=k: float(len(steps) > k))
        reward, slope_of_reward = derivative(paid, lambda steps, k=k: steps[k][3] if len(steps) > k else 0.0)
        slope_of_mean = slope_of_reward / reach - reward / reach**2 * slope_of_reach
        expected += (reach - (1 - (1 - reach) ** group_size) / group_size) * slope_of_mean
        true += slope_of_reward
    group = every_group(worlds, policy, group_size)
    plain = {"std": "none", "invalid_penalty": 0.0}
    update = expected_update(of_estimator(make("mt_grpo", **plain)), *group)
    np.testing.assert_allclose(update[: len(expected)], expected, atol=1e-12)
    assert np.abs(update[: len(expected)] - true).max() > 0.05  # the bias is not small
    counted = expected_update(of_estimator(make("mt_grpo", ended="zero", **plain)), *group)
    np.testing.assert_allclose(counted[: len(expected)], (1 - 1 / group_size) * true, atol=1e-12)


@pytest.mark.parametrize("name", ["grpo", "gigpo", "hgpo", "gagpo", "graphgpo", "gated_bepo"])
def test_others_are_biased_and_point_uphill(name, small):
    scale, distance = bias(of_estimator(make(name)), *small[2:])
    assert scale > 0 and distance > 1e-3
