"""The oracle: progress and fitted values from the expert's distances."""

import itertools
import math

import numpy as np
import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit.oracle import Oracle, progress


def episode(name, distances, done):
    """Return a row for each step between successive distances, in a group of its own."""
    pairs = list(itertools.pairwise(distances))
    return [
        {"uid": "g", "traj": name, "t": t, "obs": f"{name}{t}", "next": f"{name}{t + 1}", "r": 0.0, "valid": True}
        | {"done": done if t == len(pairs) - 1 else None, "expert_steps": d, "next_expert_steps": after}
        for t, (d, after) in enumerate(pairs)
    ]


def test_progress_is_at_most_one_step_and_a_dead_end_costs_one():
    before = np.array([3.0, 3.0, 3.0, 5.0, 2.0, math.nan, math.nan])
    after = np.array([2.0, 3.0, 4.0, 2.0, math.nan, math.nan, 1.0])
    assert progress(before, after).tolist() == [1.0, 0.0, -1.0, 1.0, -1.0, 0.0, 0.0]


def test_of_one_group_every_step_towards_success_is_better_than_every_other():
    rows = episode("a", [3, 2, 1, 0], "success") + episode("b", [3, 4, 3, math.nan], "truncation")
    advantage = Oracle()(RolloutBatch.from_rows(rows)).advantage
    assert advantage[[0, 1, 2, 4]].min() > 0 > advantage[[3, 5]].max()
    assert advantage.mean() == pytest.approx(0, abs=1e-12) and advantage.std(ddof=1) == pytest.approx(1, rel=1e-5)


def test_the_fitted_value_of_an_end_is_its_outcome():
    """Half of 8 episodes from one step away succeed: success is 1/2 above the start's value, failure 1/2 below."""
    rows = [
        r for k in range(4) for r in episode(f"s{k}", [1, 0], "success") + episode(f"f{k}", [1, math.nan], "failure")
    ]
    credit = Oracle(variant="residual")(RolloutBatch.from_rows(rows))
    np.testing.assert_allclose(np.abs(credit.advantage), 1, rtol=1e-5)
    assert (credit.advantage > 0).sum() == 4


def test_an_episode_that_is_cut_early_sets_no_time_limit():
    """The others keep their values, as if it had failed."""
    others = [row for n in range(7) for row in episode(f"s{n}", range(14, -1, -1), "success")]
    cut, failed = (episode("b", [5, 4, 3], end) for end in ("truncation", "failure"))
    first, second = (
        Oracle(variant="residual")(RolloutBatch.from_rows(others + last)).advantage for last in (cut, failed)
    )
    np.testing.assert_allclose(first, second)


def test_outcome_residual_is_the_sum_of_its_terms():
    rows = episode("a", [2, 1, 0], "success") + episode("b", [2, 3, 3], "truncation")
    credit = Oracle(variant="outcome_residual")(RolloutBatch.from_rows(rows))
    np.testing.assert_allclose(credit.advantage, credit.terms["step"] + credit.terms["outcome"])


def test_rollouts_without_an_expert_are_refused():
    rows = [{k: v for k, v in row.items() if "expert" not in k} for row in episode("a", [1, 0], "success")]
    with pytest.raises(UserError, match="expert_steps"):
        Oracle()(RolloutBatch.from_rows(rows))
