"""Every estimator, under every option, against its plain reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bepo.core.batch import RolloutBatch
from bepo.credit import estimators
from bepo.testing.strategies import estimator, options, rollouts, settings_of
from tests.credit import reference

pytestmark = pytest.mark.slow

ALL = [name for name in estimators() if hasattr(reference, name)]


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts(max_groups=3), data=st.data())
def test_equals_the_plain_reference(name, rows, data):
    chosen = data.draw(estimator(estimators()[name]))
    found = chosen(RolloutBatch.from_rows(rows)).advantage
    np.testing.assert_allclose(found, getattr(reference, name)(rows, chosen), atol=1e-8)


@given(rows=rollouts(), data=st.data())
def test_tokens_equal_the_plain_reference(rows, data):
    chosen = data.draw(estimator(estimators()["ppo"]))
    found = chosen(RolloutBatch.from_rows(rows))
    np.testing.assert_allclose(found.token_advantage, reference.ppo_tokens(rows, chosen), atol=1e-8)


def test_every_method_has_a_reference():
    assert set(ALL) == {name for name, cls in estimators().items() if not cls.privileged}


@pytest.mark.parametrize("name", ALL)
def test_every_word_and_every_number_is_drawn(name):
    """A new Literal is covered automatically; a new number needs values to try."""
    cls = estimators()[name]
    left = settings_of(cls) - set(options(cls))
    weights = {"step_weight", "outcome_weight", "softmax_temperature", "tolerance", "full_branches", "similarity"}
    assert left <= weights
