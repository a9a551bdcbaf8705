"""Identities of Batch-BEPO: what it is where tasks differ much, where they are alike, and without its parts."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, solve
from bepo.core.returns import between_share, discounted_returns, gae, standardise
from bepo.credit.batch_bepo import BatchBEPO
from bepo.credit.graphgpo import GraphGPO
from bepo.credit.rebn import ReBN
from bepo.credit.rloo import RLOO
from bepo.credit.shrunk_bepo import ShrunkBEPO
from bepo.testing.strategies import rollouts

BATCH = rollouts(max_steps=8).map(RolloutBatch.from_rows)


def scaled(x):
    """Return x over its root mean square; 0 stays 0."""
    size = np.sqrt((x**2).mean())
    return x / size if size > 0 else x


def outcome(batch, **settings):
    """Return the outcome term of each trajectory."""
    return BatchBEPO(**settings)(batch).terms["outcome"][batch.step == 0]


def episodes(returns):
    """Return one episode of three steps for each number of a (groups, K) table; only the last step pays."""
    return RolloutBatch.from_rows(
        {"uid": g, "traj": k, "t": t, "obs": f"{k}{t}", "next": f"{k}{t + 1}", "r": r * (t == 2), "valid": True}
        | {"done": "truncation" if t == 2 else None, "action": "go"}
        for g, group in enumerate(returns)
        for k, r in enumerate(group)
        for t in range(3)
    )


TABLE = st.integers(2, 5).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 3).map(float), min_size=k, max_size=k), min_size=2, max_size=4)
)


@given(table=TABLE)
def test_where_tasks_differ_much_the_baseline_is_rloos(table):
    batch = episodes(table)
    rloo = RLOO(pool="trajectory", invalid_penalty=0)(batch).advantage[batch.step == 0]
    np.testing.assert_allclose(outcome(batch, icc=1), scaled(rloo), atol=1e-4)


@given(table=TABLE)
def test_where_tasks_are_alike_the_baseline_is_rebns(table):
    batch = episodes(table)
    rebn = ReBN(invalid_penalty=0)(batch).advantage[batch.step == 0]
    np.testing.assert_allclose(outcome(batch, icc=0), scaled(rebn), atol=1e-4)


def test_large_groups_of_different_tasks_choose_rloos_baseline_by_themselves():
    """Tasks that always or never succeed but for one episode in a hundred: rho is near 1, and 99 others tell all."""
    returns = np.array([[1.0] * 99 + [0.0], [0.0] * 99 + [1.0]])
    batch = episodes(returns)
    assert between_share(batch.episode_return, batch.trajectory_group) > 0.95
    own, group = batch.episode_return, batch.trajectory_group
    rloo = own - (np.bincount(group, own)[group] - own) / 99
    np.testing.assert_allclose(outcome(batch), scaled(rloo), atol=0.01)


def test_a_pair_is_weighed_against_the_batch_by_hand():
    """Returns (1, 0), (1, 1), (0, 0): rho = 1/2 (tests/lab/test_dials.py), so another episode has the weight 1/2."""
    found = outcome(episodes([[1, 0], [1, 1], [0, 0]]))
    expected = [1 - 0.25, -0.75, 1 - 0.75, 1 - 0.75, -0.25, -0.25]  # minus (other + 1/2) / 2
    np.testing.assert_allclose(found, scaled(np.array(expected)), atol=1e-5)


@given(batch=BATCH, gae_lambda=st.sampled_from((0.0, 0.8, 1.0)))
def test_where_tasks_differ_much_the_values_are_the_plain_fixed_point(batch, gae_lambda):
    terms = BatchBEPO(icc=1, gae_lambda=gae_lambda)(batch).terms
    graph = RolloutGraph(batch)
    value = solve(graph, 0.95).value
    np.testing.assert_allclose(terms["value"], value[batch.state], atol=1e-12)
    raw = graph.pair_mean(gae(batch, graph.residuals(value, 0.95), 0.95, gae_lambda))
    np.testing.assert_allclose(terms["step_raw"], raw, atol=1e-12)


@given(batch=BATCH)
def test_where_tasks_are_alike_every_state_is_worth_the_batch(batch):
    value = BatchBEPO(icc=0)(batch).terms["value"]
    mean = discounted_returns(batch, 0.95)[batch.step == 0].mean()
    np.testing.assert_allclose(value, mean, atol=1e-4)


@given(batch=BATCH)
def test_with_one_group_the_values_are_shrunk_bepos(batch):
    assume(batch.n_groups == 1)
    found = BatchBEPO(icc=0.25)(batch).terms["value"]
    np.testing.assert_allclose(found, ShrunkBEPO(kappa=3.0)(batch).terms["value"], atol=1e-9)


@given(batch=BATCH)
def test_its_parts_add_up_and_its_graph_term_is_graphgpos(batch):
    credit = BatchBEPO(omega=0.3, graph_weight=0.7, outcome_weight=0.2)(batch)
    terms = credit.terms
    np.testing.assert_array_equal(terms["graph"], GraphGPO(omega=0.3, invalid_penalty=0)(batch).terms["step"])
    np.testing.assert_array_equal(terms["step"], standardise(terms["step_raw"], np.zeros(1, int)))
    total = terms["step"] + 0.2 * terms["outcome"] + 0.7 * terms["graph"] - 0.1 * ~batch.valid
    np.testing.assert_allclose(credit.advantage, total, atol=1e-12)
    assert credit.metrics["icc"] == between_share(batch.episode_return, batch.trajectory_group)


@pytest.mark.parametrize("settings", [{}, {"icc": 0}, {"icc": 1}])
def test_equal_returns_give_no_outcome_credit(settings):
    assert not outcome(episodes([[2, 2], [2, 2]]), **settings).any()
    assert not BatchBEPO(graph_weight=0, **settings)(episodes([[0, 0], [0, 0]])).advantage.any()
