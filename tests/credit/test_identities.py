"""Identities between estimators, and algebraic identities, from docs/credit.md."""

import numpy as np
import pytest
from hypothesis import given

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.gate import count_and_branch, count_ramp
from bepo.core.graph import RolloutGraph, iterate, solve
from bepo.core.returns import discounted_returns, outcome_advantage
from bepo.credit._audit import audit
from bepo.credit.gagpo import GAGPO
from bepo.credit.gated_bepo import GatedBEPO
from bepo.credit.gigpo import GiGPO
from bepo.credit.graphgpo import GraphGPO
from bepo.credit.grpo import GRPO
from bepo.credit.hgpo import HGPO
from bepo.credit.rloo import RLOO
from bepo.testing.strategies import rollouts


def one_step(returns, done="failure", keys=None):
    """One group of trajectories of one step, from one state unless keys are given."""
    same = {"uid": 0, "t": 0, "next": "end", "done": done, "valid": True}
    rows = [same | {"traj": k, "obs": keys[k] if keys else "s", "r": r} for k, r in enumerate(returns)]
    return RolloutBatch.from_rows(rows)


SAME = {"uid": 0, "valid": True}
ALIASING = RolloutBatch.from_rows(
    [
        SAME | {"traj": "put", "t": 0, "obs": "o", "next": "x", "r": 1.0, "done": "success"},
        SAME | {"traj": "retrieve", "t": 0, "obs": "o", "next": "p", "r": 0.0, "done": None},
        SAME | {"traj": "retrieve", "t": 1, "obs": "p", "next": "y", "r": 1.0, "done": "success"},
        SAME | {"traj": "wrong", "t": 0, "obs": "o", "next": "z", "r": 0.0, "done": "failure"},
    ]
)
"""The paper's example of two states under one key."""


@given(rows=rollouts(unique=True))
def test_without_repeated_states_gated_bepo_is_grpo(rows):
    batch = RolloutBatch.from_rows(rows)
    credit = GatedBEPO()(batch)
    np.testing.assert_allclose(credit.terms["step_raw"], 0, atol=1e-12)
    np.testing.assert_array_equal(credit.advantage, GRPO(singleton="zero")(batch).advantage)


@given(rows=rollouts())
def test_lambda_one_telescopes(rows):
    """With lambda = 1 the accumulated residual is G_t - V*(s_t)."""
    batch = RolloutBatch.from_rows(rows)
    credit = GatedBEPO(gae_lambda=1.0, solver="exact")(batch)
    expected = discounted_returns(batch, 0.95) - credit.terms["value"]
    np.testing.assert_allclose(credit.terms["step_raw"], expected, atol=1e-9)


@given(rows=rollouts())
def test_exact_residuals_are_centred_in_every_state(rows):
    batch = RolloutBatch.from_rows(rows)
    graph = RolloutGraph(batch)
    residual = graph.residuals(solve(graph, 0.95).value, 0.95)
    np.testing.assert_allclose(graph.state_mean(residual), 0, atol=1e-10)


@given(rows=rollouts())
def test_sweeps_approach_the_exact_solution_within_their_certificate(rows):
    graph = RolloutGraph(RolloutBatch.from_rows(rows))
    exact = solve(graph, 0.95).value
    for sweeps in (1, 3, 20, 2000):
        point = iterate(graph, 0.95, sweeps)
        error = graph.group_max(np.abs(point.value - exact))
        assert (error <= point.error_bound(0.95) + 1e-9).all()
    assert point.converged.all()


def test_twenty_sweeps_do_not_converge_on_a_cycle_and_the_metrics_say_so():
    """With two states that mostly follow each other, each sweep shrinks the change by gamma: 0.95^20 = 0.36."""
    rows = [
        {"uid": 0, "traj": 0, "t": t, "obs": "ab"[t % 2], "next": "ba"[t % 2], "r": 0.0, "done": None, "valid": True}
        for t in range(50)
    ]
    rows[-1] |= {"r": 10.0, "done": "success"}
    batch = RolloutBatch.from_rows(rows)
    credit, exact = GatedBEPO()(batch), GatedBEPO(solver="exact")(batch)
    error = np.abs(credit.terms["value"] - exact.terms["value"]).max()
    metrics = credit.metrics
    assert metrics["sweeps"] == 20 and metrics["converged_groups"] == 0
    assert metrics["value_bound"] >= error > 1000 * 1e-6
    assert metrics["centring_error"] > 1000 * exact.metrics["centring_error"]


@given(rows=rollouts())
def test_branching_implies_repetition(rows):
    """Thresholds (1, 2) and (2, 2) are the same gate, since b(s) <= n(s)."""
    batch = RolloutBatch.from_rows(rows)
    a, b = (GatedBEPO(n_min=n)(batch).advantage for n in (1, 2))
    np.testing.assert_array_equal(a, b)


@given(rows=rollouts())
def test_mixing_rules(rows):
    """Supplement, "Outcome-Step Mixing Variants", on the same outcome and step terms."""
    batch = RolloutBatch.from_rows(rows)
    terms = GatedBEPO()(batch).terms
    out, step, rho = terms["outcome"], terms["step"], terms["rho"]
    p = np.array([batch.success[batch.trajectory_group == g].mean() for g in range(batch.n_groups)])[batch.group]
    expected = {
        "outcome_only": out,
        "ungated": out + 1.5 * step,
        "dynamic": (1 - 0.5 * rho) * out + 1.5 * rho * step,
        "group_skew": np.clip(4 * p * (1 - p), 0, 1) * (1 - 0.5 * rho) * out + 1.5 * rho * step,
    }
    for mixing, value in expected.items():
        np.testing.assert_allclose(GatedBEPO(mixing=mixing)(batch).advantage, value, atol=1e-12)
    full, drop = (GatedBEPO(eta_min=e)(batch).advantage for e in (1.0, 0.0))
    np.testing.assert_allclose(full, out + 1.5 * rho * step, atol=1e-12)
    np.testing.assert_allclose(drop, (1 - rho) * out + 1.5 * rho * step, atol=1e-12)


@given(rows=rollouts())
def test_gate_orders(rows):
    """Supplement: A_mask masks residuals, A_stop stops the recursion, A_post does neither."""
    batch = RolloutBatch.from_rows(rows)
    terms = GatedBEPO()(batch).terms
    residual, rho, decay = terms["residual"], terms["rho"], 0.95 * 0.8
    for order in ("post", "mask", "stop"):
        expected = np.zeros(len(batch))
        for i in reversed(range(len(batch))):
            following = 0.0 if batch.terminal[i] else expected[i + 1]
            if order == "stop" and not batch.terminal[i]:
                following *= rho[i + 1]
            expected[i] = (rho[i] if order == "mask" else 1.0) * residual[i] + decay * following
        found = GatedBEPO(gate_order=order)(batch).terms["step_raw"]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_soft_gates():
    visits, branches = np.array([1, 2, 3, 4, 9]), np.array([1, 1, 2, 2, 3])
    np.testing.assert_allclose(count_ramp(visits, branches, 3), [0, 0, 1, 1, 1])
    np.testing.assert_allclose(count_ramp(visits, branches, 4), [0, 0, 2 / 3, 1, 1])
    np.testing.assert_allclose(count_and_branch(visits, branches, 4, 3), [0, 0, 1 / 3, 1 / 2, 1])


def test_the_papers_aliasing_example():
    """Targets 1, 0.95 and 0 at the merged node give residuals 0.35, 0.30 and -0.65 (supplement)."""
    for solver in ("iterate", "exact"):
        residual = GatedBEPO(solver=solver)(ALIASING).terms["residual"]
        np.testing.assert_allclose(residual[[0, 1, 3]], [0.35, 0.30, -0.65], atol=1e-9)


@given(rows=rollouts(rewards=(0.0,)))
def test_standardised_credit_ignores_the_reward_scale(rows):
    """Up to the epsilon beside the deviation."""
    scaled = [r | {"r": 7.0 * r["r"]} for r in rows]
    a, b = (GatedBEPO(invalid_penalty=0.0)(RolloutBatch.from_rows(x)).advantage for x in (rows, scaled))
    np.testing.assert_allclose(a, b, atol=1e-4)


@given(rows=rollouts())
def test_backups_order_values(rows):
    """max >= softmax >= mean, state by state after one sweep; a cold softmax is the max."""
    graph = RolloutGraph(RolloutBatch.from_rows(rows))
    start = graph.monte_carlo(0.95)
    source = graph.visits > 0

    def value(operator, temperature=1.0):
        return graph.backup(start, 0.95, operator, temperature)[source]

    assert (value("max") >= value("softmax") - 1e-9).all()
    assert (value("softmax") >= value("mean") - 1e-9).all()
    np.testing.assert_allclose(value("softmax", 1e-3), value("max"), atol=5e-3)


def test_identical_returns_are_ties_not_rounding():
    """Float32 statistics turn 10 * 0.95^k, repeated, into advantages of up to 0.7 (docs/credit.md)."""
    for n in (5, 17, 400):
        for k in range(50):
            assert not GRPO()(one_step([10 * 0.95**k] * n, "success")).advantage.any()


def test_singleton_pool():
    batch = one_step([3.0], "success")
    assert GRPO(pool="trajectory", singleton="zero")(batch).advantage == [0.0]
    assert GRPO()(batch).advantage == [3.0]


def test_equal_returns_of_trajectories_leave_the_penalty_alone():
    """The standard deviation is 0: 8 equal truncated trajectories, one invalid transition."""
    rows = [
        {"uid": 0, "traj": k, "t": t, "obs": t, "next": t + 1, "r": -0.1, "done": "truncation" if t else None}
        | {"valid": (k, t) != (3, 0)}
        for k in range(8)
        for t in range(2)
    ]
    for advantage in (
        GRPO(pool="trajectory")(RolloutBatch.from_rows(rows)).advantage,
        GatedBEPO(outcome_pool="trajectory")(RolloutBatch.from_rows(rows)).terms["outcome"],
    ):
        assert advantage[6] == pytest.approx(-0.1) and not np.delete(advantage, 6).any()


def test_invalid_penalty_touches_its_own_transition_only():
    def row(traj, t, done, valid, r=0.0):
        return {"uid": 0, "traj": traj, "t": t, "obs": t, "next": t + 1, "r": r, "done": done, "valid": valid}

    rows = [row("a", 0, None, False), row("a", 1, "success", True, 10.0), row("b", 0, "failure", True)]
    with_penalty, without = (
        outcome_advantage(RolloutBatch.from_rows(rows), std="none", invalid_penalty=c) for c in (0.1, 0.0)
    )
    np.testing.assert_allclose(with_penalty - without, [-0.1 + 0.1 / 3, 0.1 / 3, 0.1 / 3])


def test_truncation_may_bootstrap():
    """The last transition of a truncated trajectory has its successor's value if that state was visited."""
    rows = [
        {"uid": 0, "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 0.0, "done": None, "valid": True},
        {"uid": 0, "traj": 0, "t": 1, "obs": "b", "next": "c", "r": 1.0, "done": "success", "valid": True},
        {"uid": 0, "traj": 1, "t": 0, "obs": "a", "next": "b", "r": 0.0, "done": "truncation", "valid": True},
        {"uid": 0, "traj": 2, "t": 0, "obs": "a", "next": "never", "r": 0.0, "done": "truncation", "valid": True},
    ]
    batch = RolloutBatch.from_rows(rows)
    assert GatedBEPO(solver="exact")(batch).terms["value"][0] == pytest.approx(0.95 / 3)
    assert GatedBEPO(solver="exact", truncation="bootstrap")(batch).terms["value"][0] == pytest.approx(1.9 / 3)


@pytest.mark.parametrize("bad", [{"solver": "exact", "backup": "max"}, {"full_visits": 1}, {"softmax_temperature": 0}])
def test_impossible_settings_are_named(bad):
    with pytest.raises(UserError, match=next(iter(bad))):
        GatedBEPO(**bad)


@given(rows=rollouts())
def test_gae_one_on_monte_carlo_values_is_gigpos_step_term(rows):
    batch = RolloutBatch.from_rows(rows)
    raw = GAGPO(gae_lambda=1.0, invalid_penalty=0.0)(batch).terms["step_raw"]
    step = GiGPO(std="none", invalid_penalty=0.0)(batch).terms["step"]
    np.testing.assert_allclose(raw, step, atol=1e-9)


@given(rows=rollouts())
def test_gagpo_is_gated_bepo_without_sweeps_gate_and_outcome(rows):
    batch = RolloutBatch.from_rows(rows)
    bepo = GatedBEPO(iterations=0, n_min=1, b_min=1, eta_min=0.0, step_weight=1.0, invalid_penalty=0.0)(batch)
    np.testing.assert_array_equal(bepo.advantage, GAGPO(invalid_penalty=0.0)(batch).advantage)


@given(rows=rollouts())
def test_hgpo_without_history_is_gigpos_step_term(rows):
    """Up to its epsilon beside the weight, of relative size 5e-7."""
    batch = RolloutBatch.from_rows(rows)
    hgpo = HGPO(history=0, std="none", invalid_penalty=0.0)(batch).advantage
    step = GiGPO(std="none", invalid_penalty=0.0)(batch).terms["step"]
    np.testing.assert_allclose(hgpo, step, rtol=1e-6, atol=1e-9)


@given(rows=rollouts())
def test_trajectory_rloo_is_scaled_dr_grpo(rows):
    """K / (K - 1) times the centred trajectory score."""
    batch = RolloutBatch.from_rows(rows)
    k = np.bincount(batch.trajectory_group)[batch.group]
    centred = GRPO(pool="trajectory", singleton="zero", std="none")(batch).advantage
    rloo = RLOO(pool="trajectory", singleton="zero")(batch).advantage
    np.testing.assert_allclose(rloo, k / np.maximum(k - 1, 1) * centred, atol=1e-12)


@given(rows=rollouts(unique=True))
def test_without_repeated_states_step_terms_vanish(rows):
    batch = RolloutBatch.from_rows(rows)
    assert not GiGPO()(batch).terms["step"].any() and not HGPO()(batch).advantage.any()


def test_graphgpo_on_the_papers_aliasing_example():
    """(2 - x)/3, (2x - 1)/3, -(1 + x)/3 with x = alpha^d (supplement): scores 1, x, 0 centred."""
    step = GraphGPO(omega=0.1, std="none", unreachable="zero")(ALIASING).terms["step"]
    x = 0.1
    np.testing.assert_allclose(step[[0, 1, 3]] / 10, [(2 - x) / 3, (2 * x - 1) / 3, -(1 + x) / 3], atol=1e-12)


def test_graphgpo_distances_of_a_group_without_success_are_all_one():
    rows = [
        {"uid": 0, "traj": k, "t": t, "obs": t, "next": t + 1, "r": 0.0, "done": "failure" if t else None}
        | {"valid": True}
        for k in range(3)
        for t in range(2)
    ]
    credit = GraphGPO(omega=0.5)(RolloutBatch.from_rows(rows))
    np.testing.assert_array_equal(credit.terms["graph_reward"], 5.0)
    assert not credit.advantage.any()


def test_similar_states_merge_greedily():
    """The texts differ in one letter of twenty: ratio 0.95."""
    batch = one_step([0.0, 1.0, 2.0], keys=("a" * 20, "a" * 19 + "b", "c" * 20))
    assert not GiGPO(std="none")(batch).terms["step"].any()
    np.testing.assert_allclose(GiGPO(std="none", similarity=0.95)(batch).terms["step"], [-0.5, 0.5, 0.0])


def test_a_return_at_the_mean_is_dropped_whatever_the_rounding():
    """Depending on their order, floating point gives a mean of 0.3 or almost 0.3; ``drop_zero`` treats both alike."""
    returns = (0.1, 0.2, 0.3, 0.4, 0.5)
    for order in ((0, 1, 2, 3, 4), (4, 2, 0, 1, 3), (3, 0, 4, 2, 1), (1, 4, 3, 0, 2)):
        found = HGPO(base_group=True)(one_step([returns[i] for i in order])).advantage
        assert found[order.index(2)] == 0.0


def test_meeting_the_time_limit_is_rewarded_where_steps_cost_something():
    """Truncation has the value 0, going on has a lower one; with ``bootstrap`` both are equal (docs/credit.md)."""
    rows = [
        {"uid": 0, "traj": k, "t": t, "obs": "ab"[(t + k) % 2], "next": "ba"[(t + k) % 2], "r": -0.1, "valid": True}
        | {"done": "truncation" if t == 14 else None}
        for k in range(4)
        for t in range(15)
    ]
    batch = RolloutBatch.from_rows(rows)
    assert not GRPO()(batch).advantage.any()
    last = batch.terminal > 0
    assert (GatedBEPO()(batch).advantage[last] > 1).all()
    assert audit(batch, GatedBEPO()(batch))["mass_tied_groups"] == pytest.approx(1)
    exact = GatedBEPO(truncation="bootstrap", solver="exact")(batch)
    np.testing.assert_allclose(exact.terms["residual"], 0, atol=1e-9)
