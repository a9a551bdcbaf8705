"""The model slot: tier and model pick a policy preset, at every tier."""

from dataclasses import replace
from itertools import cycle

import pytest

from bepo.core.places import CONF
from bepo.credit import estimators
from bepo.losses import losses
from bepo.losses.dapo import DAPO
from bepo.losses.dr_grpo import DrGRPO
from bepo.losses.gspo import GSPO
from bepo.losses.ppo_clip import PPOClip
from bepo.policies import policies
from bepo.runs.compose import CONFIG_ERRORS, explain, register_configs, to_config
from bepo.sweep.composition import composed

pytestmark = pytest.mark.slow  # Hydra composes every preset

register_configs()


def config(*overrides):
    return to_config(composed(CONF, "train", overrides))


@pytest.mark.parametrize("model", ["small", "large", "qwen3"])
@pytest.mark.parametrize("tier", ["smoke", "laptop"])
def test_tiny_models(tier, model):
    found = config(f"tier={tier}", f"model={model}")
    assert (found.tier, found.model, found.policy.name) == (tier, model, "tiny")
    assert found.agent.style == "compact" and found.training.learning_rate == 3e-4
    assert found.policy.architecture == ("qwen3" if model == "qwen3" else "qwen2")
    assert (found.policy.hidden_size > 64) == (model == "large")


@pytest.mark.parametrize(
    "model, path",
    [("small", "Qwen/Qwen2.5-1.5B-Instruct"), ("large", "Qwen/Qwen2.5-7B-Instruct"), ("qwen3", "Qwen/Qwen3-1.7B")],
)
def test_real_models(model, path):
    found = config("tier=paper", f"model={model}")
    assert found.policy.path == path
    assert found.agent.style == "full" and found.training.learning_rate == 1e-6


def test_a_policy_on_the_command_line_wins():
    assert config("tier=paper", "policy=tiny").policy.name == "tiny"
    assert config("model=large", "policy=pretrained", "policy.path=x").policy.path == "x"


@pytest.mark.parametrize("env", ["sokoban", "alfworld", "webshop", "gymnasium", "gem"])
@pytest.mark.parametrize("tier, policy, most", [("smoke", "pretrained", 32), ("laptop", "served", 512)])
def test_what_a_tiny_model_needs_is_not_asked_of_real_weights(env, tier, policy, most):
    found = config(f"tier={tier}", f"env={env}", f"policy={policy}", *["updates=0"] * (policy == "served")).policy
    assert (found.name, found.max_response_length, found.constrained) == (policy, most, False)
    assert found.max_prompt_length == 2048
    assert config(f"tier={tier}", f"env={env}").policy.max_response_length <= 10


@pytest.mark.parametrize("architecture, kind", [("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM")])
def test_architectures_of_the_tiny_model(architecture, kind):
    found = config(f"policy.architecture={architecture}")
    model = policies()["tiny"](architecture=architecture).build(found.env, found.agent, "cpu").model
    assert type(model).__name__ == kind
    assert sum(p.numel() for p in model.parameters()) < 200_000


def test_a_model_may_need_something_in_one_environment():
    def start(model, env):
        return config("tier=laptop", f"model={model}", f"env={env}").policy.warm_start.target_success

    assert [start(model, "webshop") for model in ("small", "large", "qwen3")] == [0.1, 0.3, 0.3]
    assert [start(model, "alfworld") for model in ("small", "large", "qwen3")] == [0.1, 0.1, 0.1]


def test_a_method_preset_says_what_else_the_method_needs():
    assert config("credit=gagpo_action_ratio").loss.ratio == "action"
    graft = config("credit=graft_action_ratio")
    assert (graft.credit.name, graft.loss) == ("graft", PPOClip(ratio="action", aggregation="sequence_mean"))
    assert graft.credit.gae_lambda == 0.95
    assert config("credit=graft_action_ratio", "env=webshop").credit.gae_lambda == 0.8
    assert config("credit=hgpo_official").credit.std == "population"
    assert config("credit=graphgpo_official", "env=sokoban").credit.omega == 0.8
    dapo, dr_grpo = config("credit=dapo"), config("credit=dr_grpo", "tier=paper")
    assert (dapo.loss, dapo.training.kl_coef, dapo.rollout.mixed_groups) == (DAPO(), 0, True)
    assert (dr_grpo.loss, dr_grpo.training.kl_coef, dr_grpo.credit.std) == (DrGRPO(length=512), 0, "none")
    bounds = {"alfworld": (0.003, 0.004), "sokoban": (0.003, 0.004), "webshop": (0.03, 0.04)}
    for env, (low, high) in bounds.items():
        sampo = config("credit=sampo", f"env={env}")
        assert sampo.loss == GSPO(clip_low=low, clip_high=high) and sampo.credit.name == "gigpo"
        assert (sampo.rollout.mixed_groups, sampo.rollout.max_batches) == (True, 3)
        assert sampo.credit == config("credit=gigpo_official", f"env={env}").credit
    ppo = config("credit=ppo_ungrouped", "tier=laptop").rollout
    assert (ppo.tasks_per_update, ppo.trajectories_per_task) == (ppo.tasks * ppo.group_size, 1) == (128, 1)
    rates = {s: config("credit=ppo_ungrouped", f"tier={s}").training.critic.learning_rate for s in ("laptop", "paper")}
    assert rates == {"laptop": 1e-3, "paper": 1e-5}
    grpo = config("credit=grpo", "tier=laptop").rollout
    assert (grpo.tasks_per_update, grpo.trajectories_per_task) == (16, 8)


def test_a_preset_of_a_loss_changes_one_field():
    for name in ("cispo", "sapo"):
        assert config(f"loss={name}_masked").loss == losses()[name](sequence_mask=0.2)
    for tier, length in {"laptop": 2, "paper": 512}.items():
        assert config("loss=dr_grpo_response", f"tier={tier}").loss == DrGRPO(length=length)


@pytest.mark.parametrize(
    "loss, preset", zip(sorted({*losses()} - {"ppo_clip"}), cycle(("gagpo_action_ratio", "graft_action_ratio")))
)
def test_a_preset_for_another_loss_is_one_line_with_the_choices(preset, loss):
    with pytest.raises(CONFIG_ERRORS) as caught:
        config(f"credit={preset}", f"loss={loss}")
    problem = f"preset credit/{preset} sets loss.ratio, which loss={loss} does not have; choices of loss: ppo_clip"
    assert explain(caught.value) == problem


PUBLISHED = {  # what the method's own code does, and what its paper says
    "grpo": ({"pool": "transition", "singleton": "raw"}, {"pool": "trajectory", "singleton": "zero"}),
    "rloo": ({"pool": "transition", "singleton": "raw"}, {"pool": "trajectory", "singleton": "zero"}),
    "gigpo": ({"pool": "transition", "singleton": "raw"}, {"pool": "trajectory", "singleton": "zero"}),
    "hgpo": ({"level_offset": 2, "drop_zero": True}, {"level_offset": 1, "drop_zero": False}),
    "graphgpo": (
        {"graph_reward": "power", "pool": "transition", "singleton": "raw"},
        {"graph_reward": "power_plus_one", "pool": "trajectory", "singleton": "zero"},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_official_and_paper_settings_of_a_method_are_two_presets(name):
    official, paper = PUBLISHED[name]
    default = estimators()[name]()
    preset = name if name in ("grpo", "rloo") else f"{name}_official"  # these two need no preset for their defaults
    assert config(f"credit={preset}", "env=alfworld").credit == default
    assert {k: vars(default)[k] for k in official} == official
    assert config(f"credit={name}_paper").credit == replace(default, **paper)


def test_presets_of_newer_methods_set_fields_of_known_estimators():
    assert config("credit=rewardflow").credit == estimators()["graphgpo"](omega=0.9, std="none", unreachable="zero")
    assert config("credit=progpo").credit == estimators()["grpo"](progress=0.3)
    assert config("credit=gigpo_roll").credit == estimators()["gigpo"](state_scope="batch")
    rtmc = {"beta": 0.95, "depth": 0, "floor": 1e-6, "step_weight": 1.0, "outcome_weight": 0.0}
    assert config("credit=rtmc").credit == estimators()["crbc"](**rtmc)


@pytest.mark.parametrize(
    "preset, env, changed",
    [
        ("gigpo_official", "webshop", {"std": "none"}),
        ("gigpo_official", "sokoban", {"std": "none"}),
        ("hgpo_official", "webshop", {"std": "none"}),
        ("g2po_official", "webshop", {"std": "none"}),
        ("g2po_official", "alfworld", {}),
        ("graphgpo_official", "webshop", {"omega": 0.2}),
        ("graphgpo_official", "sokoban", {"omega": 0.8}),
    ],
)
def test_official_presets_know_what_the_scripts_of_an_environment_set(preset, env, changed):
    default = estimators()[preset.removesuffix("_official")]()
    assert config(f"credit={preset}", f"env={env}").credit == replace(default, **changed)
