"""Settings that an estimator calls idle beside others change no advantage, and a sweep says so."""

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from optuna.distributions import IntDistribution

from bepo.core.batch import RolloutBatch
from bepo.credit import estimators
from bepo.credit.gated_bepo import GatedBEPO
from bepo.runs.compose import register
from bepo.sweep.plan import plan_runs, same_trainings
from bepo.sweep.space import conditional_space, search_space
from bepo.sweep.studies import compose_study
from bepo.testing import conformance

BATCH = RolloutBatch.concat(
    [RolloutBatch.from_rows(rows) for name, rows in conformance.load()["rollouts"].items() if name.startswith("mixed")]
)

OTHERS = {
    "n_min": [1, 2], "b_min": [1, 5], "full_visits": [2, 9], "full_branches": [2, 9], "eta_min": [0.0, 1.0],
    "gate": ["binary", "count_ramp", "count_and_branch"], "step_weight": [0.0, 3.0], "gae_lambda": [0.0, 1.0],
    "iterations": [0, 3], "tolerance": [0.0, 0.1], "backup": ["mean", "max", "softmax"],
    "softmax_temperature": [0.1, 10.0], "gate_order": ["post", "mask", "stop"], "step_std": ["none", "sample"],
    "gamma": [0.5, 1.0], "truncation": ["bootstrap"], "step_invalid_penalty": [0.5], "solver": ["exact"],
}  # fmt: skip
OTHER_VARIANT = {"graphgpo": {"graph_reward": "power"}, "oracle": {"variant": "outcome_residual"}}
CASES = [
    dict(mixing=mixing, gate=gate, b_min=b_min, iterations=iterations, gate_order=order)
    for mixing, gate, b_min, iterations, order in product(
        ("dynamic", "ungated", "outcome_only", "group_skew"), ("binary", "count_ramp", "count_and_branch"),
        (2, 3), (0, 20), ("post", "mask"),
    )
]  # fmt: skip
CASES += [dict(solver="exact"), dict(backup="max"), dict(step_weight=0.0), dict(step_weight=0.0, mixing="ungated")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_they_change_no_advantage(case):
    given = GatedBEPO(**case)
    expected = given(BATCH).advantage
    for name in given.without_effect():
        for value in OTHERS[name]:
            changed = replace(given, **{name: value})
            if name in changed.without_effect():  # n_min=3 has an effect beside b_min=2
                np.testing.assert_array_equal(changed(BATCH).advantage, expected, err_msg=f"{name}={value}")


@pytest.mark.parametrize(
    ("name", "case", "idle"),
    [
        ("graphgpo", {"graph_reward": "reciprocal"}, {"omega": 0.5}),
        ("oracle", {"variant": "progress"}, {"invalid_penalty": 0.9}),
        ("oracle", {"variant": "residual"}, {"invalid_penalty": 0.9}),
    ],
)
def test_other_estimators_name_theirs(name, case, idle):
    expert = np.arange(len(BATCH), dtype=float) % 4
    batch = replace(BATCH, extras={**BATCH.extras, "expert_steps": expert, "next_expert_steps": expert[::-1].copy()})
    given = estimators()[name](**case)
    assert (
        given.without_effect().keys() == idle.keys() and not estimators()[name](**OTHER_VARIANT[name]).without_effect()
    )
    np.testing.assert_array_equal(replace(given, **idle)(batch).advantage, given(batch).advantage)


def test_each_is_a_field_with_a_reason():
    for name, cls in estimators().items():
        idle = cls().without_effect()
        assert idle.keys() <= {item.name for item in fields(cls)} and all(idle.values()), name


def test_a_plan_names_cells_that_train_the_same():
    register([])
    cells = ["tier=laptop", "env=sokoban", "credit=gated_bepo", "seed=0,1"]
    same = plan_runs([compose_study("main_sokoban_text", [*cells, "credit.n_min=1,2,3"])])
    (line,) = same_trainings(same)
    assert (
        line == "credit.n_min=1 and 2 train the same: credit.b_min=2 different successors already imply as many visits"
    )
    assert same_trainings(plan_runs([compose_study("main_sokoban_text", [*cells, "credit.n_min=2,3"])])) == []


@pytest.mark.parametrize("name", ["tune_gated_bepo", "tune_every_axis"])
def test_searches_leave_out_thresholds_that_have_no_effect(name):
    register([])
    planned = compose_study(name)
    found = search_space(planned.sweep)[0]
    found |= {one: entry.distribution for one, entry in conditional_space(planned.config).items()}
    visits, branches = found["credit.n_min"], found["credit.b_min"]
    assert isinstance(visits, IntDistribution) and isinstance(branches, IntDistribution)
    pairs = list(product(range(visits.low, visits.high + 1), range(branches.low, branches.high + 1)))
    assert all(n >= b for n, b in pairs) and len(pairs) > 3
