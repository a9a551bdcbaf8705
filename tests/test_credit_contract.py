"""One contract for every registered estimator: a new file is tested by existing."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bepo.credit import estimators
from bepo.rollout import RolloutGroup

from .strategies import rollouts

ALL = list(estimators())
CRITIC_FREE = [n for n in ALL if not getattr(estimators()[n], "needs_critic", False)]


def made(name):
    """With its defaults; whitening over the whole update mixes groups by design, so without it."""
    cls = estimators()[name]
    return cls(whiten=False) if "whiten" in cls.__dataclass_fields__ else cls()


def advantages(name, rows):
    """In the order of ``rows``."""
    group = RolloutGroup.from_rows(rows)
    out = np.empty(len(rows))
    out[group.row] = made(name)(group).advantage
    return out


@pytest.mark.parametrize("name", ALL)
def test_metadata(name):
    cls = estimators()[name]
    assert cls().name == name == cls.name
    assert cls.method_version >= 1 and cls.citation and isinstance(cls.reconstruction, bool)
    assert cls.__doc__


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts())
def test_finite_float64_and_input_untouched(name, rows):
    group = RolloutGroup.from_rows(rows)
    before = copy.deepcopy(group)
    credit = made(name)(group)
    assert credit.advantage.shape == (len(rows),) and credit.advantage.dtype == np.float64
    assert np.isfinite(credit.advantage).all()
    assert all(np.isfinite(term).all() and term.shape == (len(rows),) for term in credit.terms.values())
    assert all(isinstance(v, float) and v == v for v in credit.metrics.values())
    for token_level in (credit.token_advantage, credit.token_return):
        assert token_level is None or token_level.shape == (len(group.tokens.logprob),)
        assert token_level is None or np.isfinite(token_level).all()
    for field in ("state", "reward", "terminal", "valid"):
        np.testing.assert_array_equal(getattr(group, field), getattr(before, field))


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts(), data=st.data())
def test_order_of_rows_and_names_of_keys_do_not_matter(name, rows, data):
    base = advantages(name, rows)
    order = data.draw(st.permutations(range(len(rows))))
    np.testing.assert_allclose(advantages(name, [rows[i] for i in order]), base[order], atol=1e-9)
    renamed = [r | {"obs": f"#{r['obs']}", "next": f"#{r['next']}", "uid": (r["uid"],)} for r in rows]
    np.testing.assert_allclose(advantages(name, renamed), base, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
@given(rows=rollouts(max_groups=3))
def test_groups_do_not_influence_each_other(name, rows):
    together = advantages(name, rows)
    for uid in {r["uid"] for r in rows}:
        mine = [i for i, r in enumerate(rows) if r["uid"] == uid]
        np.testing.assert_array_equal(advantages(name, [rows[i] for i in mine]), together[mine])


@pytest.mark.parametrize("name", CRITIC_FREE)
def test_equal_outcomes_give_no_outcome_credit(name):
    """Ten failures of one step each from different states: nothing to learn, and rounding must not invent it."""
    rows = [
        {"uid": 0, "traj": k, "t": 0, "obs": f"s{k}", "next": "x", "r": -0.1, "done": "failure", "valid": True}
        for k in range(10)
    ]
    assert not advantages(name, rows).any()
