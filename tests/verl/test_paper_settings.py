"""Every row of the supplement's table of environments and backbones, composed and validated by verl itself."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from safetensors.torch import load_file

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.losses.ppo_clip import PPOClip
from bepo.policies.tiny import Tiny
from bepo.rollouts.agent import Agent
from bepo.runs.compose import register_configs
from bepo.runs.session import make_setup
from bepo.store.runs import RunFolder
from bepo.training.verl.engine import VerlEngine
from bepo.training.verl.quiet import Quiet
from bepo.training.verl.settings import compose

register_configs()
CONF = Path(__file__).parents[2] / "conf"
# env, model -> prompt, response, horizon, transitions of a minibatch, TP, GPUs, tasks of an update
ROWS = {
    ("alfworld", "small"): (2048, 512, 50, 256, 2, 2, 16),
    ("alfworld", "large"): (2048, 512, 50, 256, 4, 4, 16),
    ("alfworld", "qwen3"): (2048, 512, 50, 256, 2, 2, 16),
    ("webshop", "small"): (5120, 512, 15, 64, 2, 2, 16),
    ("webshop", "large"): (5120, 512, 15, 64, 4, 4, 16),
    ("webshop", "qwen3"): (5120, 512, 15, 64, 2, 2, 16),
    ("sokoban", "vl"): (1024, 512, 15, 64, 2, 2, 32),
}
MODELS = {"small": "Qwen2.5-1.5B", "large": "Qwen2.5-7B", "qwen3": "Qwen3-1.7B", "vl": "Qwen2.5-VL-3B"}


@pytest.fixture
def configured(tmp_path):
    def make(env, model, *more):
        overrides = ["backend=verl", "tier=paper", f"env={env}", f"model={model}", *more]
        with initialize_config_dir(str(CONF), version_base=None):
            config = OmegaConf.to_object(hydra_compose("train", overrides))
        folder = RunFolder(tmp_path, "paper")
        return config, replace(make_setup(config, folder, "cuda", {}), task_sets={})

    return make


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Return the folder of a checkpoint that stands for the paper's weights, which are not on this machine."""
    folder = tmp_path_factory.mktemp("weights")
    agent = Agent(style="compact", history_observations=False)
    Tiny(warm_start=None, num_attention_heads=2, num_hidden_layers=1).build(Sokoban(), agent, "cpu").save(folder)
    return str(folder)


@pytest.mark.parametrize("env, model", ROWS)
@pytest.mark.parametrize("credit", ["gated_bepo", "ppo_ungrouped", "gagpo_action_ratio"])
def test_the_row(configured, weights, env, model, credit):
    prompt, response, horizon, minibatch_size, parallel, gpus, tasks = ROWS[env, model]
    config, setup = configured(env, model, f"credit={credit}")
    assert MODELS[model] in config.policy.path
    composed = compose(config.backend, setup, weights)  # to check a critic, verl reads its tokenizer
    rollout, actor = composed.actor_rollout_ref.rollout, composed.actor_rollout_ref.actor
    assert (rollout.prompt_length, rollout.response_length) == (prompt, response)
    assert (rollout.tensor_model_parallel_size, composed.trainer.n_gpus_per_node) == (parallel, gpus)
    assert rollout.enable_prefix_caching
    assert config.env.horizon == horizon and config.rollout.group_size == 8 and config.rollout.tasks == tasks
    assert setup.trajectories == tasks * 8 == composed.data.train_batch_size
    assert config.training.minibatch_size == minibatch_size and config.updates == 150
    most = config.backend.micro_batch_tokens  # of packed transitions, torch's attention computes tokens x tokens
    assert actor.ppo_max_token_len_per_gpu == (most if model == "vl" else min(most, 4 * (prompt + response)))
    assert composed.critic.ppo_infer_max_token_len_per_gpu == actor.ppo_max_token_len_per_gpu >= prompt + response
    assert actor.optim.lr == 1e-6
    assert composed.actor_rollout_ref.model.use_fused_kernels and not composed.critic.model.use_fused_kernels
    for part in (composed.actor_rollout_ref, composed.critic):  # without flash-attn, pictures are padded
        assert part.model.override_config.attn_implementation == "sdpa"
        assert part.model.use_remove_padding == (model != "vl")
    assert composed.critic.enable == (credit == "ppo_ungrouped")
    assert setup.loss == PPOClip(ratio="action" if "action" in credit else "token", clip_eps=0.2, dual_clip=3.0)
    assert (actor.policy_loss.loss_mode, actor.loss_agg_mode) == ("bepo", "token-mean")


def test_what_verl_refuses_is_one_line(configured):
    config, setup = configured("alfworld", "small", "+backend.overrides.actor_rollout_ref.actor.use_dynamic_bsz=false")
    with pytest.raises(UserError, match=r"verl refuses these settings: .*micro_batch_size") as refused:
        compose(config.backend, setup, config.policy.path)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "env, model, override, words",
    [
        ("sokoban", "vl", "credit=ppo_ungrouped", "no critic that reads pictures; choices: backend=local"),
        ("alfworld", "small", "policy.lora={rank:8,seed:1}", "policy.lora.seed=1: backend=verl draws adapters without"),
    ],
)
def test_what_verl_cannot_do_is_refused_before_anything_starts(configured, env, model, override, words):
    config, setup = configured(env, model, override)
    with pytest.raises(UserError, match=words):
        VerlEngine(config.backend, setup, Quiet(None))


def test_a_transition_fits_into_a_micro_batch(configured):
    config, setup = configured("alfworld", "small", "backend.micro_batch_tokens=1024")
    with pytest.raises(UserError, match=r"backend\.micro_batch_tokens=1024: must be at least 2560"):
        compose(config.backend, setup, "x")


def test_adapters_stay_out_of_a_frozen_vision_tower(configured, weights):
    for frozen, excluded in {"true": r".*\.visual\..*", "false": None}.items():
        config, setup = configured("sokoban", "vl", "policy.lora.rank=8", f"policy.freeze_vision={frozen}")
        model = compose(config.backend, setup, weights).actor_rollout_ref.model
        assert model.exclude_modules == excluded and model.override_config.freeze_vision == (frozen == "true")


def test_adapters_of_a_trained_policy_are_merged_for_vllm(configured, weights, tmp_path):
    config, setup = configured("alfworld", "small", f"policy.path={weights}", "policy.lora.rank=4")
    policy = config.policy.build(setup.env, setup.agent, "cpu")
    before = {name: p.clone() for name, p in policy.model.named_parameters() if "lora_B" in name}
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if name in before:
                parameter.fill_(0.1)
    policy.save(tmp_path / "adapters")
    engine = object.__new__(VerlEngine)
    engine.setup = replace(setup, weights=tmp_path / "adapters", folder=tmp_path)
    merged, base = (load_file(Path(path) / "model.safetensors") for path in (engine._model_path(), weights))
    changed = {name for name, values in merged.items() if not torch.equal(values, base[name])}
    assert len(before) == len(changed) > 0 and all("proj" in name for name in changed)
    engine.setup = replace(setup, weights=Path(weights), folder=tmp_path)
    assert engine._model_path() == weights  # a whole checkpoint is taken as it is


def test_overrides_come_last(configured):
    config, setup = configured("webshop", "small", "+backend.overrides.actor_rollout_ref.rollout.max_num_seqs=17")
    assert compose(config.backend, setup, "x").actor_rollout_ref.rollout.max_num_seqs == 17


def test_flash_attention_packs_pictures_too(configured, monkeypatch):
    monkeypatch.setattr("bepo.training.verl.machine.find_spec", lambda name: name)
    config, setup = configured("sokoban", "vl")
    model = compose(config.backend, setup, "x").actor_rollout_ref.model
    assert model.override_config.attn_implementation == "flash_attention_2" and model.use_remove_padding
    config, setup = configured("alfworld", "small")
    actor = compose(config.backend, setup, "x").actor_rollout_ref.actor
    assert actor.ppo_max_token_len_per_gpu == config.backend.micro_batch_tokens
