"""The contract of all registered estimators, with all options. A new file is tested without a change here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bepo.credit import estimators
from bepo.testing import contract
from bepo.testing.credit import advantages
from bepo.testing.strategies import estimator, rollouts


@pytest.mark.parametrize("name", list(estimators()))
@pytest.mark.parametrize("check", contract("credit"))
def test_contract(check, name):
    check(estimators()[name])


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
NO_PENALTY = {"invalid_penalty": 0.0, "step_invalid_penalty": 0.0, "progress": 0.0}


@pytest.mark.parametrize("name", sorted(UNSCALED))
@given(rows=rollouts(), data=st.data())
def test_unstandardised_advantages_scale_with_rewards(name, rows, data):
    chosen = data.draw(estimator(estimators()[name], **UNSCALED[name], **NO_PENALTY))
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
    chosen = data.draw(estimator(estimators()[name], **SCALED[name], **NO_PENALTY, singleton="zero"))
    # Far from the epsilon: returns of one group may differ by discounting alone, by a ten-thousandth of a reward.
    large, larger = ([r | {"r": k * r["r"], "values": [k * v for v in r["values"]]} for r in rows] for k in (1e3, 4e3))
    np.testing.assert_allclose(advantages(chosen, larger), advantages(chosen, large), rtol=1e-3, atol=1e-3)
