"""Dials: measures of recorded rollouts by hand, and worlds that have the dials which are set."""

import numpy as np
import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.returns import between_share
from bepo.lab.dials import DIALS, dials
from bepo.lab.truth import success
from bepo.lab.words import LIKE, probe_of, read_settings
from bepo.lab.worlds import _split, sokoban_rooms


def test_the_share_between_groups_by_hand():
    x, group = np.array([1.0, 0, 1, 1, 0, 0]), np.array([0, 0, 1, 1, 2, 2])
    # Between: 2 (0 + 1/4 + 1/4) / 2 = 1/2. Within: (1/2) / 3 = 1/6. Variance of groups: (1/2 - 1/6) / 2 = 1/6.
    assert between_share(x, group) == pytest.approx(0.5)
    assert between_share(np.array([1.0, 1, 0, 0]), np.array([0, 0, 1, 1])) == 1
    assert between_share(np.array([1.0, 0, 1, 0]), np.array([0, 0, 1, 1])) == 0  # negative estimates are 0
    for x, group in (([1, 0], [0, 0]), ([1, 0], [0, 1]), ([3, 3, 3, 3], [0, 0, 1, 1])):
        assert between_share(np.array(x, float), np.array(group)) == 0


@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_share_between_groups_is_that_of_the_source(size):
    """Tasks with success rates from Beta(1, 3): the share is 1 / (1 + 1 + 3)."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(200_000), size)
    won = rng.random(len(group)) < rng.beta(1, 3, 200_000)[group]
    assert between_share(won.astype(float), group) == pytest.approx(0.2, abs=0.01)


def walk(group, traj, states, ends, steps=None):
    steps = steps or [None] * (len(states) - 1)
    return [
        {"uid": group, "traj": traj, "t": t, "obs": s, "next": n, "r": 0.0, "valid": True, "expert_steps": d}
        | {"done": ends if t == len(states) - 2 else None, "next_expert_steps": 0.0}
        for t, (s, n, d) in enumerate(zip(states, states[1:], steps))
    ]


def test_dials_by_hand():
    rows = walk("g", 0, "abac", "success", [4.0, 3.0, 2.0]) + walk("g", 1, "abb", "truncation", [4.0, 1.0])
    rows += walk("h", 0, "ab", "truncation", [4.0]) + walk("h", 1, "ab", "truncation", [4.0])
    batch = RolloutBatch.from_rows(rows)
    found = dials(batch)
    assert found.keys() == DIALS.keys()
    assert found["group_size"] == 2 and found["success"] == 0.25 and found["icc"] == 0
    assert batch.revisits.tolist() == [False, True, False, False, False, False, False]  # an end leads nowhere
    assert found["revisits"] == pytest.approx(1 / 7)
    # Group g: a has 4, 2, 4 and b has 3, 1; group h: a has 4, 4. Within keys (8/3 + 2) / 4, around groups 6.8 / 5.
    assert found["hidden"] == pytest.approx((14 / 3 / 4) / (6.8 / 5))


def test_staying_in_a_state_is_a_revisit():
    batch = RolloutBatch.from_rows(walk("g", 0, "aab", "truncation") + walk("g", 1, "baab", "success"))
    assert batch.revisits.tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("icc", [0.1, 0.2, 0.4])
def test_worlds_have_the_share_that_is_set(icc):
    probed = probe_of(*read_settings({"worlds": 24, "groups": 1, "icc": icc, "first_world": 100}))
    rate = success(probed.worlds, probed.which, probed.policy)
    assert rate.mean() == pytest.approx(0.3, abs=0.03)
    assert rate.var() / (rate.mean() * (1 - rate.mean())) == pytest.approx(icc, abs=0.05)


def test_aliased_worlds_hide_what_plain_ones_show():
    plain, aliased = (
        dials(probe_of(*read_settings({"worlds": 4, "groups": 20} | words)).rollouts.batch)["hidden"]
        for words in ({}, {"aliasing": 1.0, "aliased_policy": False})
    )
    assert plain == 0 and aliased > 0.2


def test_like_stands_for_dials_and_other_words_win():
    assert read_settings({"like": "webshop"}) == read_settings(LIKE["webshop"])
    scene, dials_, how = read_settings({"like": "alfworld", "group_size": 3})
    assert (scene.icc, dials_.aliasing, dials_.aliased_policy, how.group_size) == (0.3, 1.0, False, 3)


def test_training_boards_are_those_of_the_split():
    boards = sokoban_rooms(8, 0, "train")
    assert all(_split(int(board.name.removeprefix("sokoban"))) == "train" for board in boards)
    assert {board.name for board in boards} < {board.name for board in sokoban_rooms(20)}
