"""The exact expected update of estimators against the true gradient."""

import numpy as np
import pytest

from bepo.credit import make
from bepo.lab.bias import bias, every_group, trajectories
from bepo.lab.controls import CONTROLS
from bepo.lab.fidelity import of_estimator
from bepo.lab.policies import noisy_expert, softmax
from bepo.lab.truth import success
from bepo.lab.worlds import FAILURE, SUCCESS, Dials, World, Worlds

MOVES = np.array([[1, 0], [2, 0], [SUCCESS, FAILURE]])


@pytest.fixture(scope="module")
def small():
    """A chain of three states with success, failure and time-outs; success pays 1 and nothing else pays."""
    world = World("small", MOVES, 1.0 * (MOVES == SUCCESS), 0, [0, 1, 2], [((s,),) for s in range(3)])
    worlds = Worlds([world], Dials(horizon=4))
    policy = softmax(noisy_expert(worlds, 1.0))
    return worlds, policy, *every_group(worlds, policy, 2)


def test_all_trajectories_are_enumerated(small):
    worlds, policy, every, probability = small
    paths = trajectories(worlds, policy)
    assert sum(p for p, _ in paths) == pytest.approx(1, abs=1e-12)
    assert probability.sum() == pytest.approx(1, abs=1e-12)
    won = every.rollouts.won.reshape(-1, 2).mean(1)
    assert (probability * won).sum() == pytest.approx(success(worlds, np.zeros(1, int), policy)[0], abs=1e-12)


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


@pytest.mark.parametrize("name", ["grpo", "gigpo", "hgpo", "gagpo", "graphgpo", "gated_bepo"])
def test_others_are_biased_and_point_uphill(name, small):
    scale, distance = bias(of_estimator(make(name)), *small[2:])
    assert scale > 0 and distance > 1e-3
