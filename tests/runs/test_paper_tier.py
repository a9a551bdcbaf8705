"""At tier=paper every cell of every study carries the paper's hyper-parameters."""

import csv
from collections import defaultdict
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
import yaml

from bepo.credit import estimators
from bepo.runs.compose import register_configs
from bepo.sweep.plan import plan_runs
from bepo.sweep.studies import compose_cells, compose_study, studies_of_paper
from tests.conftest import DATA

pytestmark = [pytest.mark.slow, pytest.mark.long]  # Hydra composes every study

register_configs()
REPORTED = Path(__file__).parents[2] / "paper" / "reported"
STUDIES = [name for name in studies_of_paper() if not name.startswith(("tune_", "prompting"))]
PROMPTING = ["prompting", "prompting_sokoban"]  # nothing is trained

SAID = yaml.safe_load((DATA / "paper_tier.yaml").read_text(encoding="utf-8"))
PATHS, COMMON, FIELDS, ABLATIONS = (SAID[name] for name in ("paths", "common", "fields", "ablations"))
MAIN = ["gagpo", "gated_bepo", "gigpo", "grpo", "hgpo", "ppo", "rloo"]


@cache
def runs(name):
    return plan_runs([compose_study(name, ["tier=paper"])])


def value(config, path):
    for part in path.split("."):
        config = getattr(config, part)
    return config


@pytest.mark.parametrize("name", STUDIES)
def test_common_settings(name):
    for run in runs(name):
        found = {path: value(run.config, path) for path in COMMON}
        assert found == COMMON, run.label
        assert (
            run.config.rollout.tasks_per_update * run.config.rollout.trajectories_per_task
            == run.config.rollout.tasks * 8
        )


@pytest.mark.parametrize("name", PROMPTING)
def test_served_policies_are_the_papers_models_under_the_protocol_of_its_tables(name):
    expected = {path: value for path, value in COMMON.items() if path.startswith("evaluation.")}
    for run in runs(name):
        assert expected == {path: value(run.config, path) for path in expected} and run.config.updates == 0
        assert run.config.policy.name == "vllm" and run.config.prompting.profile == "table"
        assert run.config.policy.path == PATHS[run.config.model] and run.config.policy.seeded
    asked = {(r.config.env.name, r.config.model, r.config.prompting.method) for r in runs(name)}
    places = {("alfworld", "small"), ("alfworld", "large"), ("webshop", "small"), ("webshop", "large")}
    rows = {(*place, method) for place in places for method in ("direct", "react", "reflexion")}
    assert asked == (rows if name == "prompting" else {("sokoban", "vl", "direct")})


def test_closed_models_are_named_and_have_no_built_in_price():
    found = {(r.config.env.name, r.config.model, r.config.policy.model) for r in runs("prompting_closed")}
    names = ("gpt-4o-2024-08-06", "gemini-2.5-pro")
    assert found == {(env, "closed", name) for env in ("alfworld", "webshop") for name in names}
    policies = [run.config.policy for run in runs("prompting_closed")]
    assert {price for policy in policies for price in (policy.price_prompt, policy.price_response)} == {None}


@pytest.mark.parametrize("name", [*STUDIES, *PROMPTING])
def test_settings_of_environment_and_backbone(name):
    expected = defaultdict(dict)
    with (REPORTED / "supp-environment-hparams.csv").open() as file:  # checked against the paper by test_reported.py
        for row in csv.DictReader(file):
            if row["column"] in FIELDS:
                expected[row["row"], row["group"]][FIELDS[row["column"]]] = int(row["mean"])
    for run in runs(name):
        model = "small" if run.config.model == "qwen3" else run.config.model  # "the corresponding 1.5B settings"
        settings = expected[run.config.env.name, model]
        assert settings == {path: value(run.config, path) for path in settings}, run.label
        assert len(settings) == len(FIELDS)


@pytest.mark.parametrize("name", ["main_alfworld", "main_webshop", "main_sokoban", "qwen3_transfer"])
def test_devices_of_the_full_stack(name):
    """GPUs of a run (supplement, "Compute and implementation") and the table's tensor-parallel degrees."""
    for cell in compose_study(name, ["tier=paper", "backend=verl", "credit=gated_bepo", "seed=0"]).cells():
        (config,) = compose_cells([cell])
        expected = 4 if config.model == "large" else 2
        assert (config.backend.n_gpus, config.backend.tensor_parallel_size) == (expected, expected)


def test_models_and_seeds():
    models = {
        "main_alfworld": {"small", "large"},
        "main_webshop": {"small", "large"},
        "main_sokoban": {"vl"},
        "qwen3_transfer": {"qwen3"},
    }
    for name in STUDIES:
        configs = [r.config for r in runs(name)]
        assert {c.model for c in configs} == models.get(name, {"small"})
        assert all(c.policy.path == PATHS[c.model] and c.agent.style == "full" for c in configs)
        three = name in (*models, "observation_aliasing", "runtime")
        assert {c.seed for c in configs} == ({0, 1, 2} if three else {0}), name


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_varies_what_the_paper_says_and_nothing_else(name):
    default = asdict(estimators()["gated_bepo"]())
    assert default == default | SAID["gated_bepo"]
    expected = [default | change for change in ABLATIONS[name]]
    assert [asdict(r.config.credit) for r in runs(name)] == expected
    assert {r.config.env.name for r in runs(name)} == {"alfworld" if name == "backup_operator" else "webshop"}


@pytest.mark.parametrize("name", ["main_alfworld", "main_webshop"])
def test_main_results_compare_seven_methods_under_their_own_rules(name):
    methods = {r.config.credit.name: r.config for r in runs(name)}
    assert sorted(methods) == MAIN and len(runs(name)) == 7 * 2 * 3
    for method, config in methods.items():
        rollout = (config.rollout.tasks_per_update, config.rollout.trajectories_per_task)
        assert rollout == ((128, 1) if method == "ppo" else (16, 8)), method
        assert config.loss.ratio == ("action" if method == "gagpo" else "token")
    assert methods["gigpo"].credit.std == "sample"  # the row that the paper prints is GiGPO's "w/ std"
    assert methods["hgpo"].credit.std == ("none" if name == "main_webshop" else "population")
    assert methods["rloo"].credit.pool == "transition"
    assert asdict(methods["gated_bepo"].credit) == asdict(estimators()["gated_bepo"]())
    assert all(methods[m].credit.gamma == 0.95 for m in ("gigpo", "hgpo", "gagpo", "gated_bepo"))
    critic = methods["ppo"].training.critic
    assert (methods["ppo"].credit.gamma, methods["ppo"].credit.gae_lambda) == (1.0, 1.0)
    assert (critic.learning_rate, critic.clip_eps) == (1e-5, 0.5)


def test_the_other_studies():
    assert {r.config.credit.name for r in runs("main_sokoban")} == {"grpo", "gigpo", "gated_bepo"}
    assert {r.config.env.observation for r in runs("main_sokoban")} == {"rgb"}
    transfer = {(r.config.env.name, r.config.credit.name) for r in runs("qwen3_transfer")}
    assert transfer == {(e, m) for e in ("alfworld", "webshop") for m in ("grpo", "gigpo", "hgpo", "gated_bepo")}
    gated = next(r.config for r in runs("gated_gagpo") if r.config.credit.name == "gated_bepo")
    assert (gated.credit.iterations, gated.credit.step_invalid_penalty, gated.loss.ratio) == (0, 0.1, "action")
    aliasing = {
        (r.config.credit.name, r.config.env.graph_key, r.config.env.prompt_state) for r in runs("observation_aliasing")
    }
    assert aliasing == {(m, p, p) for m in ("graphgpo", "gated_bepo") for p in ("raw", "augmented")}
    assert {r.config.credit.omega for r in runs("observation_aliasing") if r.config.credit.name == "graphgpo"} == {0.1}
    shared = {r.id for r in runs("runtime")}
    assert shared < {r.id for r in runs("main_alfworld")} and len(shared) == 3
