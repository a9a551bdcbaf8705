"""The contract of all registered estimators, with all options. A new file is tested without a change here."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit import Credit, estimators
from bepo.credit.gated_bepo import GatedBEPO
from tests.strategies import estimator, rollouts

ALL = list(estimators())
CRITIC_FREE = [n for n in ALL if not estimators()[n].needs_critic]


def separate(name):
    """Random options, except those that mix the groups of an update by design."""
    return estimator(name, whiten=False, variant="progress")


def advantages(chosen, rows):
    """In the order of ``rows``."""
    batch = RolloutBatch.from_rows(rows)
    out = np.empty(len(rows))
    out[batch.row] = chosen(batch).advantage
    return out


@pytest.mark.parametrize("name", ALL)
def test_metadata(name):
    cls = estimators()[name]
    assert cls().name == name == cls.name
    assert cls.method_version >= 1 and cls.citation and isinstance(cls.reconstruction, bool)
    assert cls.__doc__
    assert set(cls.traits) == {"needs", "step_credit", "temporal", "mixing"} and all(cls.traits.values())


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts(), data=st.data())
def test_finite_float64_and_input_untouched(name, rows, data):
    batch = RolloutBatch.from_rows(rows)
    before = copy.deepcopy(batch)
    credit = data.draw(estimator(name))(batch)
    assert credit.advantage.shape == (len(rows),) and credit.advantage.dtype == np.float64
    assert np.isfinite(credit.advantage).all()
    assert all(np.isfinite(term).all() and term.shape == (len(rows),) for term in credit.terms.values())
    assert all(isinstance(v, float) and v == v for v in credit.metrics.values())
    for token_level in (credit.token_advantage, credit.token_return):
        assert token_level is None or token_level.shape == (len(batch.tokens.logprob),)
        assert token_level is None or np.isfinite(token_level).all()
    for field in ("state", "reward", "terminal", "valid"):
        np.testing.assert_array_equal(getattr(batch, field), getattr(before, field))


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts(), data=st.data())
def test_order_of_trajectories_and_names_do_not_matter(name, rows, data):
    chosen = data.draw(separate(name))
    base = advantages(chosen, rows)
    order = data.draw(st.permutations(range(len(rows))))
    np.testing.assert_allclose(advantages(chosen, [rows[i] for i in order]), base[order], atol=1e-9)
    keys = sorted({key for row in rows for key in (row["obs"], row["next"])})
    other = dict(zip(keys, data.draw(st.permutations(keys))))
    renamed = [
        row | {"obs": other[row["obs"]], "next": other[row["next"]], "uid": (row["uid"],), "traj": f"#{row['traj']}"}
        for row in rows
    ]
    np.testing.assert_allclose(advantages(chosen, renamed), base, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts(max_groups=3), data=st.data())
def test_groups_do_not_influence_each_other(name, rows, data):
    chosen = data.draw(separate(name))
    together = advantages(chosen, rows)
    # Bit for bit, except for the exact solver: factorising all groups together orders sums differently.
    rounding = 1e-12 if isinstance(chosen, GatedBEPO) and chosen.solver == "exact" else 0.0
    for uid in {r["uid"] for r in rows}:
        mine = [i for i, r in enumerate(rows) if r["uid"] == uid]
        np.testing.assert_allclose(advantages(chosen, [rows[i] for i in mine]), together[mine], rtol=0, atol=rounding)


UNSCALED = {  # without division by a standard deviation, advantages are in units of reward
    "grpo": {"std": "none"},
    "rloo": {},
    "gigpo": {"std": "none"},
    "hgpo": {"std": "none"},
    "gagpo": {"step_std": "none"},
    "graphgpo": {"std": "none", "step_weight": 0.0},  # its step term counts steps, not rewards
    "ppo": {"whiten": False},
    "gated_bepo": {"step_std": "none", "outcome_std": "none", "backup": "mean", "tolerance": 0.0},
}
NO_PENALTY = {"invalid_penalty": 0.0, "step_invalid_penalty": 0.0}


@pytest.mark.parametrize("name", sorted(UNSCALED))
@given(rows=rollouts(), data=st.data())
def test_unstandardised_advantages_scale_with_rewards(name, rows, data):
    chosen = data.draw(estimator(name, **UNSCALED[name], **NO_PENALTY))
    scaled = [row | {"r": 4 * row["r"], "values": [4 * v for v in row["values"]]} for row in rows]
    np.testing.assert_allclose(advantages(chosen, scaled), 4 * advantages(chosen, rows), rtol=1e-6, atol=1e-6)


SCALED = {  # every term is divided by a deviation: the scale of rewards is lost, up to the epsilon beside it
    "grpo": {"std": "sample"},
    "gigpo": {"std": "sample"},
    "hgpo": {"std": "population", "base_group": False},
    "gagpo": {"step_std": "sample"},
    "graphgpo": {"std": "sample"},
    "ppo": {"whiten": True},
    "gated_bepo": {"step_std": "sample", "outcome_std": "sample", "backup": "mean", "tolerance": 0.0},
}


@pytest.mark.parametrize("name", sorted(SCALED))
@given(rows=rollouts(rewards=(0.0, -0.5, 1.0)), data=st.data())
def test_standardised_advantages_ignore_the_scale_of_rewards(name, rows, data):
    chosen = data.draw(estimator(name, **SCALED[name], **NO_PENALTY, singleton="zero"))
    # Far from the epsilon: returns of one group may differ by discounting alone, by a ten-thousandth of a reward.
    large, larger = ([r | {"r": k * r["r"], "values": [k * v for v in r["values"]]} for r in rows] for k in (1e3, 4e3))
    np.testing.assert_allclose(advantages(chosen, larger), advantages(chosen, large), rtol=1e-3, atol=1e-3)


DEGENERATE = {
    "one transition": [("a", "end", 10.0, "success")],
    "one-step trajectories": [
        ("a", "end", 10.0, "success"),
        ("a", "end", 0.0, "failure"),
        ("a", "x", 0.0, "truncation"),
    ],
    "all failed": [(f"s{k}", "x", -0.1, "failure") for k in range(10)],
    "all equal": [("a", "x", 10 * 0.95**7, "success")] * 17,
}


@pytest.mark.parametrize("shape", DEGENERATE)
@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_degenerate_groups_are_finite(name, shape, data):
    rows = [
        {"uid": 0, "traj": k, "t": 0, "obs": s, "next": n, "r": r, "done": end, "valid": True}
        | {"prompt_ids": [0], "response_ids": [1], "logprobs": [0.0], "values": [0.5], "expert_steps": 1.0}
        | {"next_expert_steps": 0.0 if end == "success" else math.nan}
        for k, (s, n, r, end) in enumerate(DEGENERATE[shape])
    ]
    advantage = advantages(data.draw(estimator(name)), rows)
    assert np.isfinite(advantage).all()
    if shape in ("all failed", "all equal") and name in CRITIC_FREE:
        assert not advantage.any()  # nothing to learn, and rounding must not invent it


@pytest.mark.parametrize(
    "credit, problem",
    [
        (Credit(np.zeros(3)), r"advantage has shape \(3,\), must be \(2,\)"),
        (Credit(np.zeros((2, 1))), r"advantage has shape \(2, 1\), must be \(2,\)"),
        (Credit(np.zeros(2), token_advantage=np.zeros(2)), r"token_advantage has shape \(2,\), must be \(4,\)"),
        (Credit(np.zeros(2), token_return=np.zeros(5)), r"token_return has shape \(5,\), must be \(4,\)"),
    ],
)
def test_credit_of_another_size_is_refused(credit, problem):
    with pytest.raises(UserError, match=problem):
        credit.of_tokens(np.array([1, 3]))
    assert Credit(np.array([5.0, 7.0])).of_tokens(np.array([1, 3])).tolist() == [5.0, 7.0, 7.0, 7.0]
