"""Measures of estimates whose quality is known, and learning that they predict."""

import numpy as np
import pytest

from bepo.core.errors import UserError
from bepo.credit import make
from bepo.lab.controls import CONTROLS
from bepo.lab.fidelity import MEASURES, fidelity
from bepo.lab.learn import Learning, learn, rates, warm_start
from bepo.lab.policies import at_success, noisy_expert
from bepo.lab.probe import of_estimator, probe
from bepo.lab.truth import success
from bepo.lab.worlds import Worlds, WorldSettings, chain, grid, sokoban_rooms


@pytest.fixture(scope="module")
def probed():
    worlds = Worlds(sokoban_rooms(4))
    return probe(worlds, at_success(worlds, noisy_expert(worlds), 0.3), groups=60)


def test_the_exact_advantage_has_no_error_and_noise_has_no_signal(probed):
    exact = fidelity(CONTROLS["exact"](probed), probed)
    assert exact.keys() == MEASURES.keys()
    for name, value in (("error", 0), ("raw_error", 0), ("bias2", 0), ("variance", 0), ("sign_error", 0), ("rank", 1)):
        np.testing.assert_allclose(exact[name], value, atol=1e-9, err_msg=name)
    noise = fidelity(CONTROLS["random"](probed), probed)
    np.testing.assert_allclose(noise["error"], 1, atol=0.01)
    for name, value in (("sign_error", 0.5), ("rank", 0), ("gradient_cosine", 0), ("gradient_efficiency", 0)):
        np.testing.assert_allclose(noise[name], value, atol=0.08, err_msg=name)


def test_measures_do_not_depend_on_the_scale_except_the_raw_ones(probed):
    estimate = of_estimator(make("gated_bepo"))(probed)
    one, ten = fidelity(estimate, probed), fidelity(10 * estimate, probed)
    for name in MEASURES:
        if name == "gradient_norm":
            np.testing.assert_allclose(ten[name], 10 * one[name])
        elif name != "raw_error":
            np.testing.assert_allclose(ten[name], one[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_bias_and_variance_add_up_to_the_error():
    """With one trajectory a group, up to the rare cells that are left out. Both estimates are unbiased."""
    worlds = Worlds([chain(4), chain(5)], WorldSettings(horizon=8))
    one = probe(worlds, at_success(worlds, noisy_expert(worlds), 0.5), group_size=1, groups=4000)
    for name in ("continuations_4", "exact_value"):
        found = fidelity(CONTROLS[name](one), one)
        np.testing.assert_allclose(found["bias2"] + found["variance"], found["error"], atol=0.01, err_msg=name)
        scale = one.mean(CONTROLS[name](one) * one.advantage) / one.mean(CONTROLS[name](one) ** 2)
        np.testing.assert_allclose(found["bias2"], (1 - scale) ** 2, atol=0.02, err_msg=name)  # what scaling biases


def test_more_continuations_are_closer_to_the_truth(probed):
    errors = [fidelity(CONTROLS[f"continuations_{m}"](probed), probed)["error"].mean() for m in (1, 4, 16)]
    assert errors[0] > errors[1] + 0.05 > errors[2] + 0.1


@pytest.mark.long
def test_the_start_has_the_success_that_is_asked_for_where_it_does_not_grow_with_the_scale():
    """Sokoban8 never succeeds with large logits, and with the best ones in 54 % of the episodes."""
    boards = sokoban_rooms(48)
    for n in (10, 20, 48):
        worlds = Worlds(boards[:n])
        for rate in (0.3, 0.5):
            reached = success(worlds, np.arange(n), at_success(worlds, noisy_expert(worlds), rate))
            np.testing.assert_allclose(reached, rate, atol=0.01, err_msg=f"{n} boards")


def test_a_rate_that_no_scale_reaches_is_named_with_those_that_are():
    worlds = Worlds(sokoban_rooms(8))
    with pytest.raises(UserError, match=r"world sokoban8 reaches 0.000 to 0.5\d\d only"):
        at_success(worlds, noisy_expert(worlds), 0.9)


@pytest.mark.slow
def test_policies_learn_and_better_credit_learns_faster():
    worlds = Worlds([grid(seed) for seed in range(16)], WorldSettings(horizon=12))
    start = warm_start(worlds, 0.2)
    how = Learning(seeds=6, updates=12, learning_rate=0.05)
    curves = {name: learn(worlds, start, estimate, how) for name, estimate in estimates().items()}
    assert curves["grpo"].training.shape == (12, 6) and curves["grpo"].before == rates(worlds, start)[0]
    speed = {name: curve.training.mean() for name, curve in curves.items()}
    assert speed["exact"] > speed["grpo"] + 0.02 > speed["random"] + 0.04
    again = learn(worlds, start, estimates()["grpo"], how)
    np.testing.assert_array_equal(again.training, curves["grpo"].training)


def estimates():
    return {"grpo": of_estimator(make("grpo")), "exact": CONTROLS["exact"], "random": CONTROLS["random"]}
