"""Identities of the newer estimators (docs/credit.md), and the limits in which they are another estimator."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.errors import UserError
from bepo.core.graph import RolloutGraph, iterate, solve, with_terminals
from bepo.core.returns import discounted_returns, standardise, standardise_by_state, tied
from bepo.credit.adastep import AdaStep, explained
from bepo.credit.crbc import CRBC
from bepo.credit.ecpo import ECPO
from bepo.credit.empg import EMPG
from bepo.credit.g2po import G2PO
from bepo.credit.gated_bepo import GatedBEPO
from bepo.credit.gigpo import GiGPO
from bepo.credit.graft import GRAFT
from bepo.credit.graphgpo import GraphGPO
from bepo.credit.graphhca import GraphHCA
from bepo.credit.grpo import GRPO
from bepo.credit.mt_grpo import MTGRPO
from bepo.credit.otb import OTB
from bepo.credit.proxmo import ProxMO, tfidf
from bepo.credit.rebn import ReBN
from bepo.credit.salt import SALT, same_steps
from bepo.credit.shrunk_bepo import ShrunkBEPO
from bepo.credit.vineppo import VinePPO
from bepo.explore.advantages import applies
from bepo.testing.strategies import rollouts

BATCH = rollouts(max_steps=8).map(RolloutBatch.from_rows)
UNIQUE = rollouts(unique=True).map(RolloutBatch.from_rows)
STEP_TERMS = [CRBC(), GRAFT(), GraphHCA(), G2PO(), AdaStep(), ECPO()]


def close(found, expected, atol=1e-9):
    np.testing.assert_allclose(found, expected, atol=atol)


def failures(batch):
    """The same batch with every success turned into a failure."""
    rows = []
    for i in range(len(batch)):
        end = Terminal.FAILURE if batch.terminal[i] == Terminal.SUCCESS else Terminal(batch.terminal[i])
        row = {"uid": int(batch.group[i]), "traj": int(batch.trajectory[i]), "t": int(batch.step[i]), "r": 0.0}
        row |= {"obs": int(batch.state[i]), "next": int(batch.next_state[i]), "action": str(batch.actions[i])}
        rows.append(row | {"valid": True, "done": end.name.lower() if end else None})
    return RolloutBatch.from_rows(rows)


# --- one fixed point, four names -----------------------------------------------------------------------------------


@given(batch=BATCH, gamma=st.sampled_from((0.5, 0.95, 0.99)))
def test_graft_crbc_and_graphhca_solve_gated_bepos_system(batch, gamma):
    """V(success) = 1 one step after the end is gamma times the value of a reward of 1 at the end."""
    graph = RolloutGraph(batch.paying_success(1.0))
    value = solve(graph, gamma).value
    residual = graph.residuals(value, gamma)
    close(GRAFT(gamma=gamma)(batch).terms["residual"], gamma * residual, 2e-9)
    close(CRBC(beta=gamma)(batch).terms["step_raw"], gamma * graph.pair_mean(residual), 2e-9)
    potential = with_terminals(gamma * value, 1.0)
    log = np.log(np.maximum(potential, 0.01))
    close(GraphHCA(gamma=gamma)(batch).terms["step_raw"], log[graph.successor] - log[batch.state], 2e-9)


@given(batch=BATCH)
def test_step_terms_sum_to_zero_in_every_state(batch):
    graph = RolloutGraph(batch)
    for estimator in (CRBC(depth=2), CRBC(), GRAFT(gae_lambda=0), GraphHCA(), AdaStep(), ECPO()):
        close(graph.state_mean(estimator(batch).terms["step"]), 0)
    close(graph.state_mean(G2PO()(batch).terms["node"]), 0)
    close(np.add.reduceat(G2PO()(batch).terms["edge"], batch.group_start), 0, 1e-7)


@given(batch=BATCH)
def test_grafts_means_over_later_transitions_are_zero(batch):
    """Over all transitions that leave the states k steps ahead, residuals average 0 (not over distinct edges)."""
    graph, estimator = RolloutGraph(batch), GRAFT(std="none", invalid_penalty=0.0)
    raw = estimator(batch).terms["residual"]
    ahead = {int(s) for s in graph.successor if s >= 0}
    for _ in range(4):
        leaving = np.isin(batch.state, list(ahead))
        assert abs(raw[leaving].sum()) < 1e-7
        ahead = {int(s) for s in graph.successor[leaving] if s >= 0}


def test_graft_looks_ahead_over_distinct_edges():
    """By hand, lambda = gamma = 0.5: from b two transitions end in success and one in failure."""
    rows = [*walk(0, 0, "abc", "success"), *walk(0, 1, "abc", "success"), *walk(0, 2, "abd", "failure")]
    batch = RolloutBatch.from_rows(rows)
    credit = GRAFT(gamma=0.5, gae_lambda=0.5, std="none", invalid_penalty=0)(batch)
    b = 0.5 * 2 / 3  # V(b)
    success, failure = 0.5 - b, -b
    close(credit.terms["residual"], [0, success, 0, success, 0, failure])
    close(
        credit.terms["step_raw"],
        [0.25 * (success + failure) / 2, success] * 2 + [0.25 * (success + failure) / 2, failure],
    )


def test_graft_gives_a_state_that_was_visited_once_the_sign_of_what_lies_ahead():
    rows = [*walk(0, 0, "abc", "success"), *walk(0, 1, "dbc", "success"), *walk(0, 2, "ebf", "failure")]
    step = GRAFT(invalid_penalty=0)(RolloutBatch.from_rows(rows)).terms["step"]
    assert step[0] == step[2] == step[4] == -1  # of three visits two succeed, of two distinct edges one
    assert not GRAFT(gae_lambda=0)(RolloutBatch.from_rows(rows)).terms["step"][::2].any()


@given(batch=BATCH)
def test_with_two_successors_graft_and_graphhca_are_one_estimator(batch):
    """Standardised within a state, every increasing function of the successor's value gives the same two numbers."""
    graph = RolloutGraph(batch)
    scores, deviations = [], []
    for estimator in (GRAFT(gamma=0.95, gae_lambda=0), GraphHCA(gamma=0.95, floor=1e-9)):
        raw = estimator(batch).terms["step_raw"]
        centred = raw - graph.state_mean(raw)[batch.state]
        deviations.append(np.sqrt(graph.state_mean(centred**2)))
        scores.append(centred / np.maximum(deviations[-1][batch.state], 1e-12))
    chosen = (graph.branches == 2) & (np.minimum(*deviations) > 1e-6)
    assume(chosen.any())
    close(scores[0][chosen[batch.state]], scores[1][chosen[batch.state]], 1e-5)


@given(batch=BATCH, depth=st.sampled_from((1, 2, 3, 5)))
def test_crbc_of_depth_k_is_the_residual_after_k_minus_one_sweeps(batch, depth):
    graph = RolloutGraph(batch.paying_success(1.0))
    value = iterate(graph, 0.98, depth - 1, tolerance=0.0).value
    residual = 0.98 * standardise_by_state(batch, graph.residuals(value, 0.98), "none")
    close(CRBC(depth=depth)(batch).terms["step_raw"], graph.pair_mean(residual), 1e-8)


@given(batch=BATCH)
def test_g2pos_node_term_is_crbc_of_depth_one_before_it_averages_actions(batch):
    graph = RolloutGraph(batch)
    node = G2PO(std="none", invalid_penalty=0.0)(batch).terms["node"]
    close(graph.pair_mean(node) * 0.95 / 10, CRBC(beta=0.95, depth=1)(batch).terms["step_raw"], 1e-8)


# --- ProxMO ---------------------------------------------------------------------------------------------------------


@given(batch=BATCH)
def test_proxmo_that_compares_equal_texts_only_is_gigpo(batch):
    gigpo = GiGPO(std="none")(batch)
    for temperature in (0.0, 1e-3):  # the limit, and close to it
        credit = ProxMO(temperature=temperature, swing=0.0)(batch)
        close(credit.advantage, gigpo.advantage)
        close(credit.terms["step"], gigpo.terms["step"])


@given(batch=BATCH, swing=st.sampled_from((0.05, 0.3)), rate=st.sampled_from(("success", "score")))
def test_proxmo_weighs_the_outcome_by_difficulty(batch, swing, rate):
    weight = ProxMO(swing=swing, rate=rate)(batch).terms["rho"]
    won = batch.success[batch.trajectory]
    assert (np.abs(weight - 1) <= swing + 1e-12).all()
    if rate == "success":
        assert (weight[won] >= 1).all() and (weight[~won] <= 1).all()
        np.testing.assert_array_equal(weight, ProxMO(swing=swing)(batch).terms["rho"])


def test_the_vectors_are_scikit_learns():
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["You see a Mug 1, and a mug 2.", "you see nothing", "a b c", "", "mug mug shelf Ünder"]
    visits = np.array([3, 1, 2, 1, 4])
    theirs = TfidfVectorizer(max_features=1024).fit_transform(np.repeat(texts, visits)).toarray()
    ours = tfidf(texts, visits).toarray()
    first = np.cumsum(visits) - visits
    close(ours @ ours.T, (theirs @ theirs.T)[np.ix_(first, first)])
    assert tfidf(["a", "b"], np.array([1, 1])).shape[1] == 0


def test_only_the_most_used_words_count():
    texts = [f"common{i % 2} word{i:04d}" for i in range(2000)]
    assert tfidf(texts, np.ones(2000, int)).shape[1] == 1024


# --- limits --------------------------------------------------------------------------------------------------------


@given(batch=UNIQUE)
def test_without_repeated_states_only_the_outcome_is_left(batch):
    outcome = GRPO()(batch).advantage
    for estimator in (CRBC(), GraphHCA(), AdaStep(), ECPO()):
        np.testing.assert_array_equal(estimator(batch).advantage, outcome)
    assert not GRAFT(invalid_penalty=0.0)(batch).advantage.any() and not G2PO()(batch).terms["node"].any()


@given(batch=BATCH)
def test_without_weight_the_step_term_is_gone(batch):
    outcome = GRPO()(batch).advantage
    for estimator in (CRBC(step_weight=0), GraphHCA(step_weight=0), G2PO(step_weight=0), AdaStep(step_weight=0)):
        np.testing.assert_array_equal(estimator(batch).advantage, outcome)


@given(batch=BATCH.map(failures))
def test_a_group_that_failed_learns_nothing(batch):
    for estimator in (*STEP_TERMS, ShrunkBEPO()):
        advantage = estimator(batch).advantage
        alone = batch.transitions_per_group[batch.group] == 1  # a pool of one keeps its score
        assert not advantage[~alone].any(), estimator


@given(batch=BATCH)
def test_deeper_crbc_approaches_the_fixed_point(batch):
    """|A_inf - A_K| <= 2 beta^K / (1 - beta) max |V_1 - V_0|."""
    beta = 0.5
    graph = RolloutGraph(batch.paying_success(beta))
    start = graph.monte_carlo(beta)
    first = np.abs(graph.backup(start, beta, "mean", 1.0) - start).max()
    exact = CRBC(beta=beta)(batch).terms["step_raw"]
    for depth in (1, 2, 3, 8):
        gap = np.abs(exact - CRBC(beta=beta, depth=depth)(batch).terms["step_raw"]).max()
        assert gap <= 2 * beta**depth / (1 - beta) * first + 1e-8


@given(batch=BATCH)
def test_crbc_is_bounded_and_never_reads_rewards(batch):
    value = solve(RolloutGraph(batch.paying_success(0.98)), 0.98).value
    assert (value >= -1e-12).all() and (value <= 0.98 + 1e-12).all()
    step = CRBC()(batch).terms["step"]
    np.testing.assert_array_equal(CRBC()(batch.penalised(0.7)).terms["step"], step)
    one = RolloutGraph(batch).actions[batch.state] < 2
    assert not step[one].any()


@given(batch=BATCH)
def test_following_crbcs_advantage_never_lowers_a_value(batch):
    """Policy improvement: actions weighted by exp(A) are worth as much or more in every state."""
    beta = 0.98
    graph, credit = RolloutGraph(batch.paying_success(beta)), CRBC(beta=beta)(batch)
    weight = np.exp(credit.terms["step_raw"])
    weight /= np.bincount(batch.state, weights=weight, minlength=batch.n_states)[batch.state]
    policy, inner = np.eye(batch.n_states), graph.successor >= 0
    np.add.at(policy, (batch.state[inner], graph.successor[inner]), -beta * weight[inner])
    reward = np.bincount(batch.state, weights=weight * graph.batch.reward, minlength=batch.n_states)
    assert (np.linalg.solve(policy, reward) >= solve(graph, beta).value - 1e-9).all()


@given(batch=BATCH)
def test_graphhca_orders_successors_as_graft(batch):
    phi, delta = GraphHCA(floor=1e-9)(batch).terms["step_raw"], GRAFT(gamma=0.95)(batch).terms["residual"]
    gaps = [np.subtract.outer(x, x)[np.equal.outer(batch.state, batch.state)] for x in (phi, delta)]
    assert (gaps[0] * gaps[1] >= -1e-12).all()


@given(batch=BATCH)
def test_graphhca_lies_below_minus_log_gamma_on_average(batch):
    """Jensen, where no value is below the floor."""
    graph = RolloutGraph(batch.paying_success(0.95))
    potential = with_terminals(solve(graph, 0.95).value, 1.0)
    low = potential[graph.successor] < 0.01
    free = np.bincount(batch.state, weights=low, minlength=batch.n_states) == 0
    raw = graph.state_mean(GraphHCA()(batch).terms["step_raw"])
    assert (raw[free] <= -np.log(0.95) + 1e-9).all()
    assert (np.abs(GraphHCA()(batch).terms["step_raw"]) <= np.log(100) + 1e-9).all()


# --- AdaStep and ECPO ----------------------------------------------------------------------------------------------


def bandit(*arms):
    """One state; each action has a list of rewards."""
    rows = [(action, reward) for action, rewards in zip("abcd", arms) for reward in rewards]
    same = {"uid": 0, "t": 0, "obs": "s", "next": "end", "done": "failure", "valid": True}
    return RolloutBatch.from_rows([same | {"traj": k, "action": a, "r": r} for k, (a, r) in enumerate(rows)])


@pytest.mark.parametrize(
    "arms, weight",
    [
        (([1, 1, 1], [0, 0]), 1.0),  # constant within actions
        (([0, 1], [1, 0]), 0.0),  # equal means
        (([0, 2], [2, 4]), 0.5),  # total variance 2, within 1
        (([0, 2], [3]), 1.0),  # an action seen once
        (([0, 2, 5],), 1.0),  # one action
        (([1, 1], [1, 1]), 1.0),  # equal returns
    ],
)
def test_adastep_weights_by_explained_variance(arms, weight):
    batch = bandit(*arms)
    credit, plain = AdaStep()(batch), GiGPO()(batch)
    close(credit.terms["rho"], weight, 1e-12)
    close(credit.terms["step"], plain.terms["step"])
    close(credit.advantage, plain.terms["outcome"] + weight * plain.terms["step"])


@given(batch=BATCH)
def test_adasteps_weight_ignores_the_scale_of_rewards_and_is_a_share(batch):
    weight = AdaStep()(batch).terms["rho"]
    larger = RolloutBatch.concat([batch])
    larger.reward = 4 * larger.reward
    close(AdaStep()(larger).terms["rho"], weight)
    assert (weight >= 0).all() and (weight <= 1).all()


def test_ecpo_cancels_its_pseudo_visits_for_two_equally_frequent_actions():
    """Standardising within the state removes the common factor; with unequal counts the order of magnitude differs."""
    even, uneven = bandit([3, 1], [0, 0]), bandit([3, 1], [0, 0, 0], [7])
    a, b = (ECPO(kappa=k)(even).terms["step"] for k in (0.0, 5.0))
    close(a, b, 1e-5)
    a, b = (ECPO(kappa=k)(uneven).terms["step"] for k in (0.0, 5.0))
    assert np.abs(a - b).max() > 0.1


@pytest.mark.parametrize("arms", [([1, 1], [1, 1]), ([5],), ([0, 1], [1, 0])])
def test_ecpos_gate_is_closed_where_returns_say_nothing_about_actions(arms):
    """Equal returns, one visit, equal mean returns: B / (B + W) is 0."""
    batch = bandit(*arms)
    credit = ECPO()(batch)
    assert not credit.gate.any() and not credit.terms["rho"].any()
    np.testing.assert_array_equal(credit.advantage, GRPO()(batch).advantage)


@given(batch=BATCH)
def test_ecpo_without_shrinkage_is_adasteps_weight_on_action_means(batch):
    graph = RolloutGraph(batch)
    credit = ECPO(kappa=0.0, tau=1e-9)(batch)  # the ramp is 1
    returns = discounted_returns(batch, 0.95)
    close(credit.gate[graph.visits > 0], explained(graph, returns, tied=0.0)[graph.visits > 0])
    close(credit.terms["step"], standardise_by_state(batch, graph.pair_mean(returns), "population"))


# --- G2PO ----------------------------------------------------------------------------------------------------------


def test_g2pos_edge_term_grows_along_a_success_without_shared_states():
    """V rises by 1 / 0.95 a step, so the later steps of a success gain more; a failure gains nothing."""
    rows = [
        {"uid": 0, "traj": k, "t": t, "obs": f"{k}{t}", "next": f"{k}{t + 1}", "r": 0.0, "valid": True}
        | {"done": (None if t < 3 else end)}
        for k, end in enumerate(("success", "failure"))
        for t in range(4)
    ]
    terms = G2PO()(RolloutBatch.from_rows(rows)).terms
    assert not terms["node"].any()
    assert (np.diff(terms["edge"][:4]) > 0).all() and tied(terms["edge"][4:], np.array([0])).all()


# --- Shrunk-BEPO ---------------------------------------------------------------------------------------------------


@given(batch=BATCH, gae_lambda=st.sampled_from((0.0, 0.8, 1.0)))
def test_shrunk_bepo_without_its_additions_is_gated_bepos_fixed_point(batch, gae_lambda):
    plain = ShrunkBEPO(
        kappa=0, step_floor=0, pool_actions=False, graph_weight=0, outcome_weight=0, gae_lambda=gae_lambda
    )
    gated = GatedBEPO(solver="exact", gae_lambda=gae_lambda)(batch)
    credit = plain(batch)
    np.testing.assert_array_equal(credit.terms["value"], gated.terms["value"])
    np.testing.assert_array_equal(credit.terms["step"], gated.terms["step"])
    np.testing.assert_array_equal(credit.advantage, gated.terms["step"] - 0.1 * ~batch.valid)


@given(batch=BATCH)
def test_shrunk_bepos_parts_are_those_of_graphgpo_and_grpo(batch):
    terms = ShrunkBEPO(omega=0.3)(batch).terms
    np.testing.assert_array_equal(terms["graph"], GraphGPO(omega=0.3, invalid_penalty=0)(batch).terms["step"])
    np.testing.assert_array_equal(terms["outcome"], GRPO(singleton="zero", invalid_penalty=0)(batch).advantage)


@given(batch=BATCH)
def test_much_shrinkage_makes_every_state_worth_the_groups_mean(batch):
    graph = RolloutGraph(batch)
    mean = graph.mean_return(0.95)[batch.group]
    close(ShrunkBEPO(kappa=1e9)(batch).terms["value"], mean, 1e-6)


@given(batch=BATCH)
def test_the_floor_bounds_a_group_that_tells_little(batch):
    """Divided by at least 1000 rewards, no step term exceeds its raw size over 1000."""
    terms = ShrunkBEPO(step_floor=1000.0)(batch).terms
    close(terms["step"], standardise(terms["step_raw"], batch.group_start, "none") / 1000.0)
    assume(np.abs(terms["step_raw"]).max() > 0)
    assert np.abs(terms["step"]).max() <= 2 * np.abs(terms["step_raw"]).max() / 1000.0


# --- RewardFlow, RTMC, ROLL and ProGPO as options ------------------------------------------------------------------


@given(batch=BATCH)
def test_rewardflow_propagates_the_best_discounted_value(batch):
    """V = max(success, 0.9 max over next states), swept until nothing changes; V(s) itself cancels within a state."""
    value, ends = np.zeros(batch.n_states), batch.terminal == Terminal.SUCCESS
    for _ in range(batch.n_states + 1):
        after = np.where(ends, 10.0, value[batch.next_state])
        np.maximum.at(value, batch.state, 0.9 * after)
    credit = GraphGPO(omega=0.9, std="none", unreachable="zero", invalid_penalty=0)(batch)
    close(credit.terms["step"], standardise_by_state(batch, after - value[batch.state], "none"))


@given(batch=BATCH)
def test_crbc_without_backups_is_gigpos_step_term_averaged_over_actions(batch):
    """The mean return of an action minus that of its state, as in RTMC; AdaStep's weight is its share of variance."""
    plain = batch.paying_success(0.95)
    graph = RolloutGraph(plain)
    raw = CRBC(beta=0.95, depth=0)(batch).terms["step_raw"]
    close(raw, graph.pair_mean(GiGPO(std="none", invalid_penalty=0)(plain).terms["step"]), 2e-9)
    returns = discounted_returns(plain, 0.95)
    total = graph.state_mean((returns - graph.state_mean(returns)[batch.state]) ** 2)
    share = explained(graph, returns)
    varies = total > 1e-6
    close(graph.state_mean(raw**2)[varies], (share * total)[varies], 1e-7)


def test_roll_compares_states_of_different_tasks():
    """One state in two tasks of one trajectory each: alone it has no comparison, over the batch it has."""
    rows = [
        {"uid": uid, "traj": 0, "t": 0, "obs": "s", "next": "x", "r": r, "done": "failure", "valid": True}
        for uid, r in ((0, 0.0), (1, 4.0))
    ]
    batch = RolloutBatch.from_rows(rows)
    assert not GiGPO(std="none")(batch).terms["step"].any()
    mixed = GiGPO(std="none", state_scope="batch")
    assert mixed(batch).terms["step"].tolist() == [-2.0, 2.0]
    assert mixed.mixes_groups and not GiGPO().mixes_groups and GRPO(progress=0.3).mixes_groups


def walk(uid, traj, keys, done):
    last = len(keys) - 2
    return [
        {"uid": uid, "traj": traj, "t": t, "obs": keys[t], "next": keys[t + 1], "r": 10.0 * (done == "success")}
        | {"done": done if t == last else None, "valid": t > 0, "action": "go"}
        for t in range(last + 1)
    ]


def test_progpo_rewards_new_states_in_failed_groups_only():
    """Progress 1 and 1/2 in the failed group, half of the groups failed: +-0.3 / 2; the other group is GRPO's."""
    failed = walk("f", 0, "abc", "truncation") + walk("f", 1, "aba", "truncation")
    mixed = walk("m", 0, "ab", "success") + walk("m", 1, "aba", "failure")
    batch = RolloutBatch.from_rows(failed + mixed)
    found = GRPO(progress=0.3)(batch).advantage
    close(found[:4], [0.15, 0.15, -0.15, -0.15])
    np.testing.assert_array_equal(found[4:], GRPO()(batch).advantage[4:])
    close(GRPO(progress=0.3)(RolloutBatch.from_rows(failed)).advantage, [0.3, 0.3, -0.3, -0.3])


# --- ReBN, SALT, EMPG and MT-GRPO ----------------------------------------------------------------------------------


@given(rows=rollouts(max_groups=3, rewards=(0.0,)))
def test_rebn_without_discount_is_grpo_with_the_batch_as_one_group(rows):
    """Where only the last transition pays, every return is the episode's."""
    one = [row | {"uid": "all", "traj": (row["uid"], row["traj"])} for row in rows]
    batch, merged = RolloutBatch.from_rows(rows), RolloutBatch.from_rows(one)
    close(ReBN(invalid_penalty=0)(batch).advantage, GRPO(invalid_penalty=0, singleton="zero")(merged).advantage)
    assert abs(ReBN()(batch).advantage.sum()) < 1e-8


@given(batch=UNIQUE)
def test_salt_without_equal_steps_is_grpo(batch):
    np.testing.assert_array_equal(SALT()(batch).advantage, GRPO(pool="trajectory", singleton="zero")(batch).advantage)


@given(batch=BATCH, history=st.sampled_from((0, 1, 3)))
def test_salt_keeps_the_sum_over_equal_steps_and_more_history_splits_them(batch, history):
    same, finer = same_steps(batch, history), same_steps(batch, history + 1)
    credit = SALT(history=history)(batch)
    close(np.bincount(same, weights=credit.advantage), np.bincount(same, weights=credit.terms["outcome"]))
    assert all(len(set(same[finer == i])) == 1 for i in np.unique(finer))


def test_salt_gives_a_step_that_one_success_and_one_failure_share_nothing():
    rows = walk(0, 0, "abc", "success") + walk(0, 1, "abd", "failure")
    found = SALT(invalid_penalty=0)(RolloutBatch.from_rows(rows)).advantage
    assert found[0] == found[2] == 0 and found[1] > 0 > found[3]


@given(batch=BATCH)
def test_empg_without_modulation_is_centred_grpo(batch):
    outcome = GRPO()(batch).advantage
    close(EMPG(k=0, zeta=0)(batch).advantage, outcome - outcome.mean())
    credit = EMPG()(batch)
    assert credit.terms["rho"].mean() == pytest.approx(1) and abs(credit.advantage.sum()) < 1e-8
    even = batch.with_columns(entropy=np.full(len(batch), 0.7))
    close(EMPG()(even).terms["rho"], 1.0)
    close(EMPG()(even).terms["bonus"], batch.terminal == 0)


@pytest.mark.parametrize("estimator", [CRBC(), GRAFT(), AdaStep(), ECPO(), SALT(), ShrunkBEPO()])
def test_rollouts_without_actions_are_refused(estimator):
    rows = [row | {"action": None} for row in walk(0, 0, "abc", "success") + walk(0, 1, "abd", "failure")]
    without = RolloutBatch.from_rows(rows)
    with pytest.raises(UserError, match="no actions"):
        estimator(without)
    assert not applies(estimator, without) and applies(GRPO(), without)  # viewer and replay leave it out
    invalid = [row | {"valid": False} for row in rows]  # a group of invalid responses has no action either
    none = RolloutBatch.from_rows(invalid)
    assert applies(estimator, none) and np.isfinite(estimator(none).advantage).all()


@pytest.mark.parametrize("estimator, column", [(EMPG(), "entropy"), (OTB(), "energy")])
def test_rollouts_without_a_column_are_refused(estimator, column):
    with pytest.raises(UserError, match=column):
        estimator(RolloutBatch.from_rows(walk(0, 0, "abc", "success")))


@given(rows=rollouts(max_steps=1))
def test_mt_grpo_of_one_step_is_grpo(rows):
    batch = RolloutBatch.from_rows(rows)
    grpo = GRPO(pool="trajectory", singleton="zero", invalid_penalty=0)(batch).advantage
    for ended in ("left_out", "zero"):
        close(MTGRPO(ended=ended, invalid_penalty=0)(batch).advantage, grpo)


@given(batch=BATCH)
def test_mt_grpo_with_ended_trajectories_counted_is_centred_at_the_first_step(batch):
    """Its baseline there is the mean return of the group, whatever the trajectories' lengths."""
    found = MTGRPO(ended="zero", std="none", invalid_penalty=0)(batch).advantage[batch.step == 0]
    returns = batch.episode_return
    mean = np.bincount(batch.trajectory_group, weights=returns) / np.bincount(batch.trajectory_group)
    close(found, returns - mean[batch.trajectory_group], 1e-7)


# --- OTB -----------------------------------------------------------------------------------------------------------


def test_otb_weighs_returns_by_accumulated_energy():
    """Energies 1 and 3 of returns 10 and 0: the baseline is 2.5. At step two 2 and 3: it is 4. Then one is alone."""
    rows = walk(0, 0, "abcd", "success") + walk(0, 1, "abc", "failure")
    rows = [row | {"r": 10.0 * (row["done"] == "success"), "valid": True} for row in rows]
    batch = RolloutBatch.from_rows([row | {"energy": e} for row, e in zip(rows, (1.0, 1.0, 1.0, 3.0, 0.0))])
    close(OTB()(batch).advantage, [7.5, 6.0, 10.0, -2.5, -4.0])


@given(batch=BATCH)
def test_otb_has_no_energy_weighted_mean_at_any_step(batch):
    credit = OTB()(batch)
    step = batch.group * np.int64(100) + batch.step
    same = np.unique(step, return_inverse=True)[1]
    alone = (np.bincount(same) == 1)[same]
    close(np.bincount(same, weights=credit.advantage * credit.terms["energy"] * ~alone), 0, 1e-7)


# --- VinePPO -------------------------------------------------------------------------------------------------------


def test_vineppo_by_hand():
    """V = 4, 6, 9, then a success of 10: differences 2, 3 and 1. The second step is invalid and pays 0.1."""
    rows = [row | {"r": 10.0 * (row["done"] == "success"), "valid": True} for row in walk(0, 0, "abcd", "success")]
    rows = [row | {"continuation": v, "valid": v != 6} for row, v in zip(rows, (4.0, 6.0, 9.0))]
    close(VinePPO()(RolloutBatch.from_rows(rows)).advantage, [2.0, 2.9, 1.0])


@given(batch=BATCH)
def test_vineppos_advantages_of_a_trajectory_add_up_to_its_return_beyond_the_first_value(batch):
    credit = VinePPO(invalid_penalty=0.0)(batch)
    first = np.flatnonzero(batch.step == 0)
    total = np.bincount(batch.trajectory, weights=credit.advantage)
    close(total, batch.episode_return - credit.terms["value"][first], 1e-7)
