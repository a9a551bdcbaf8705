"""Exact values, occupancies and gradients against enumeration of all trajectories."""

import itertools

import numpy as np
import pytest

from bepo.lab.policies import at_success, noisy_expert, softmax
from bepo.lab.rollouts import collect
from bepo.lab.truth import gradient, occupancy, success, values
from bepo.lab.worlds import FAILURE, FAMILIES, SUCCESS, World, Worlds, WorldSettings, chain, grid, sokoban_rooms, tree

ONE = np.zeros(1, int)


def three_states(seed: int) -> World:
    """A chain of three states whose moves and rewards are drawn."""
    rng = np.random.default_rng(seed)
    moves = rng.choice([0, 1, 2, SUCCESS, FAILURE], size=(3, 2))
    return World("three", moves, rng.standard_normal((3, 2)), 0, [0, 0, 1], [((s,),) for s in range(3)])


def enumerated(worlds: Worlds, policy, objective, gamma):
    """Value of the start and its gradient by the logits of keys, from every sequence of choices and slips."""
    horizon, slip, n, a = worlds.dials.horizon, worlds.dials.slip, worlds.n_states, worlds.n_actions
    total, slope = 0.0, np.zeros((n, a))
    for plays in itertools.product(itertools.product(range(a), range(a)), repeat=horizon):
        state, weight, pays, discount, chosen = int(worlds.start[0]), 1.0, 0.0, 1.0, []
        for t, (choice, executed) in enumerate(plays):
            if state >= n:  # the episode has ended: count the rest once
                weight *= float(all(play == (0, 0) for play in plays[t:]))
                break
            weight *= policy[0, state, choice] * ((1 - slip) * (choice == executed) + slip / a)
            chosen.append((state, choice))
            won = worlds.next[0, state, executed] == n
            pays += discount * (float(won) if objective == "success" else worlds.reward[0, state, executed])
            state, discount = int(worlds.next[0, state, executed]), discount * gamma
        total += weight * pays
        for where, choice in chosen:
            slope[worlds.key[0, where]] += weight * pays * ((np.arange(a) == choice) - policy[0, where])
    return total, slope


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("slip, aliasing", [(0.0, 0.0), (0.3, 0.0), (0.2, 1.0)])
def test_values_and_gradients_are_those_of_all_trajectories(seed, slip, aliasing):
    worlds = Worlds([three_states(seed)], WorldSettings(horizon=4, slip=slip, aliasing=aliasing))
    logits = np.random.default_rng(seed).standard_normal((1, 3, 2))
    policy = softmax(np.take_along_axis(logits, worlds.key[:, :, None], 1))
    for objective, gamma in (("success", 1.0), ("return", 1.0), ("return", 0.9)):
        value, slope = enumerated(worlds, policy, objective, gamma)
        assert values(worlds, ONE, policy, objective, gamma).value[0, 0, 0] == pytest.approx(value, abs=1e-12)
        if objective == "success":
            np.testing.assert_allclose(gradient(worlds, ONE, policy)[0], slope, atol=1e-12)
            assert success(worlds, ONE, policy)[0] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_worlds_can_begin_at_any_number(family):
    names = [world.name for world in FAMILIES[family](range(6), 15)]
    first = int(names[2].removeprefix("sokoban")) if "sokoban" in family else 2  # unusable boards have no world
    assert [world.name for world in FAMILIES[family](range(first, first + 4), 15)] == names[2:]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_starts_at_the_success_rate_that_is_asked_for(family):
    worlds = Worlds(FAMILIES[family](range(3), 15), WorldSettings(slip=0.05))
    policy = at_success(worlds, noisy_expert(worlds), 0.3)
    np.testing.assert_allclose(policy.sum(-1), 1)
    which = np.repeat(np.arange(3), 400)
    rollouts = collect(worlds, which, policy[which], 8, np.random.default_rng(0))
    assert rollouts.won.mean() == pytest.approx(0.3, abs=0.02)  # 9,600 episodes: a standard error of 0.005
    seen = np.bincount(rollouts.state[rollouts.batch.step == 2], minlength=worlds.n_states) / len(which) / 8
    expected = occupancy(worlds, np.arange(3), policy)[2].mean(0)
    np.testing.assert_allclose(seen, expected, atol=0.03)


def test_what_worlds_are():
    assert chain(5).distance[0] == 5 and np.isnan(chain(5).distance[5:]).all()  # broken: no way out
    one = tree(depth=3, branching=2)
    assert (one.next == SUCCESS).sum() == 1 and one.distance[0] == 3 and len(one.next) == 7
    room = grid(0)
    assert 4 <= room.distance[room.start] <= 10
    for board in sokoban_rooms(5):
        assert 3 <= board.distance[board.start] <= 15 and board.start == 0
        assert set(np.unique(board.reward).round(6)) == {-0.1, 10.9}


def test_aliased_states_share_key_features_and_policy():
    worlds = Worlds([chain(4), chain(6)], WorldSettings(aliasing=1.0))
    assert len(set(worlds.key[0, :8])) == 4 and len(set(worlds.key[1])) == 6
    policy = softmax(noisy_expert(worlds))
    np.testing.assert_array_equal(policy[1], policy[1][worlds.key[1]])
    np.testing.assert_array_equal(worlds.features[1], worlds.features[1][worlds.key[1]])
    hidden = Worlds([chain(4), chain(6)], WorldSettings(aliasing=1.0, aliased_policy=False))
    np.testing.assert_array_equal(hidden.key, worlds.key)
    assert len({tuple(row) for row in hidden.features[1]}) == 12
