"""The gain of an update: identities, and a slow reference that goes through every trajectory."""

import numpy as np
import pytest

from bepo.credit import make
from bepo.lab import gain as of_gain
from bepo.lab.bias import trajectories
from bepo.lab.controls import CONTROLS
from bepo.lab.gain import KL, gain, moved
from bepo.lab.policies import at_success, noisy_expert, softmax
from bepo.lab.probe import of_estimator, probe
from bepo.lab.truth import occupancy
from bepo.lab.worlds import Worlds, WorldSettings, chain, sokoban_rooms


@pytest.fixture(scope="module")
def probed():
    worlds = Worlds(sokoban_rooms(4))
    return probe(worlds, at_success(worlds, noisy_expert(worlds), 0.3), groups=60)


@pytest.mark.parametrize("aliasing", [{}, {"aliasing": 1.0}, {"aliasing": 1.0, "aliased_policy": False}])
def test_the_true_advantage_gives_exactly_1(aliasing, monkeypatch):
    """Each visited step, state and action weighs as much as it should; then a sample is the true gradient."""
    monkeypatch.setattr(of_gain, "TRAJECTORIES", 40_000)
    worlds = Worlds([chain(3), chain(4)], WorldSettings(horizon=6, **aliasing))
    one = probe(worlds, at_success(worlds, noisy_expert(worlds), 0.5), group_size=8, groups=5000)
    batch, rollouts = one.rollouts.batch, one.rollouts
    chance = one.policy[one.of, rollouts.state, rollouts.action]
    occupied = occupancy(worlds, one.which, one.policy)[batch.step, one.of, rollouts.state]
    count = np.bincount(one.cells[0])[one.cells[0]]
    np.testing.assert_allclose(gain(one.advantage * occupied * chance / count, one), 1, atol=1e-5)


def test_the_gain_of_a_sample_is_that_of_a_plain_computation():
    worlds = Worlds([chain(4)], WorldSettings(horizon=5))
    policy = softmax(noisy_expert(worlds))
    one = probe(worlds, policy, group_size=4, groups=8)
    estimate = of_estimator(make("grpo"))(one)
    expected = reference(one, estimate) / rise_along(worlds, policy, exact_direction(worlds, policy))
    assert gain(estimate, one)[0] == pytest.approx(expected, rel=1e-6)


def reference(one, estimate):
    """Return the rise in success along the softmax gradient of all transitions, added one by one."""
    policy, direction = one.policy[0], np.zeros_like(one.policy[0])
    for a, s, chosen in zip(estimate, one.rollouts.state, one.rollouts.action):
        for action in range(policy.shape[1]):
            direction[s, action] += a * ((action == chosen) - policy[s, action])
    return rise_along(one.worlds, one.policy, direction)


def exact_direction(worlds, policy):
    """Return the gradient of success: the sum over trajectories of probability x success x score."""
    direction = np.zeros_like(policy[0])
    for probability, steps in trajectories(worlds, policy):
        won = steps[-1][2] == worlds.n_states
        for state, chosen, _, _ in steps:
            direction[state] -= probability * won * policy[0, state]
            direction[state, chosen] += probability * won
    return direction


def rise_along(worlds, policy, direction):
    """Move by a mean divergence of KL a visited step, in small steps of the scale, and go through all trajectories."""
    visits = np.zeros(len(direction))
    for probability, steps in trajectories(worlds, policy):
        for state, *_ in steps:
            visits[state] += probability
    low, high = 0.0, 1.0
    while divergence(policy[0], at(policy[0], direction, high), visits) < KL:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        near = divergence(policy[0], at(policy[0], direction, middle), visits) < KL
        low, high = (middle, high) if near else (low, middle)
    return wins(worlds, at(policy[0], direction, low)[None]) - wins(worlds, policy)


def at(policy, direction, scale):
    tilted = policy * np.exp(scale * direction)
    return tilted / tilted.sum(-1, keepdims=True)


def divergence(policy, other, visits):
    found = sum(v * sum(q * np.log(q / p) for p, q in zip(*rows)) for v, *rows in zip(visits, policy, other))
    return found / visits.sum()


def wins(worlds, policy):
    return sum(probability for probability, steps in trajectories(worlds, policy) if steps[-1][2] == worlds.n_states)


def test_noise_gains_nothing_its_opposite_loses_and_the_scale_does_not_matter(probed):
    exact = gain(CONTROLS["exact"](probed), probed)
    assert (exact > 0.95).all() and (exact < 1).all()
    assert (np.abs(gain(CONTROLS["random"](probed), probed)) < 0.3).all()
    assert (gain(-CONTROLS["exact"](probed), probed) < -0.3).all()
    np.testing.assert_allclose(gain(7 * CONTROLS["exact"](probed), probed), exact, rtol=1e-6)
    np.testing.assert_allclose(gain(np.zeros(len(probed.rollouts.batch)), probed), 0, atol=1e-12)


def test_more_trajectories_gain_more(probed, monkeypatch):
    found = []
    for n in (8, 32, 128):
        monkeypatch.setattr(of_gain, "TRAJECTORIES", n)
        found.append(gain(of_estimator(make("gated_bepo"))(probed), probed).mean())
    assert found[0] + 0.02 < found[1] < found[2] - 0.005


def test_a_policy_moves_by_the_divergence_and_stays_where_nothing_points():
    rng = np.random.default_rng(0)
    policy, weight = rng.dirichlet(np.ones(4), (3, 5)), rng.random((3, 5))
    policy[1, 2] = [1, 0, 0, 0]
    direction = rng.standard_normal(policy.shape)
    direction[2] = 0
    found = moved(policy, direction, weight, KL)
    np.testing.assert_allclose(found.sum(-1), 1)
    log = np.log(np.where(found > 0, found / np.where(policy > 0, policy, 1), 1))
    reached = (weight * (found * log).sum(-1)).sum(-1) / weight.sum(-1)
    np.testing.assert_allclose(reached, [KL, KL, 0], atol=1e-8)
    np.testing.assert_array_equal(found[1, 2], policy[1, 2])
    np.testing.assert_allclose(found[2], policy[2])
