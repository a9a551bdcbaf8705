"""Builds verl's config from its shipped defaults, a run's settings, and the backend's overrides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import verl
from omegaconf import DictConfig, OmegaConf
from transformers import AutoConfig
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from bepo.core.errors import UserError
from bepo.losses import Loss
from bepo.training.backends import Setup
from bepo.training.verl.devices import find_device
from bepo.training.verl.machine import attention
from bepo.training.verl.patches import policy_after

if TYPE_CHECKING:
    from bepo.training.backends.verl import Verl

_DEFAULTS = Path(verl.__path__[0]) / "trainer" / "config" / "_generated_ppo_trainer.yaml"
_LOOP = Path(__file__).parent / "agent_loop.yaml"
_FULL_TRANSITIONS, _LEAST_TOKENS = 4, 1024  # limits of a packed micro-batch without FlashAttention
LOSS = "bepo"  # verl's name for the run's policy loss, which ``losses`` registers
AGGREGATION = {  # our names, and verl's
    "token_mean": "token-mean",
    "sequence_mean": "seq-mean-token-mean",
    "constant_length": "seq-mean-token-sum-norm",
}


def compose(settings: Verl, setup: Setup, model: str) -> DictConfig:
    """Return verl's config, validated by verl. Raises ``UserError`` with verl's message.

    ``model`` is a folder or a name on the model hub. Hydra 1.4 cannot compose verl's config, because its groups use
    parent paths.
    """
    kind = type(setup.loss)
    if kind.reduce is not Loss.reduce or kind.denominator is not Loss.denominator:
        raise UserError(f"loss={setup.loss.name}: its own reduce or denominator needs backend=local")
    longest = setup.policy.max_prompt_length + setup.policy.max_response_length
    if settings.micro_batch_tokens < longest:
        raise UserError(
            f"backend.micro_batch_tokens={settings.micro_batch_tokens}: must be at least {longest}, the tokens of a "
            "transition (policy.max_prompt_length + policy.max_response_length)"
        )
    config: Any = OmegaConf.load(_DEFAULTS)  # a DictConfig: the file holds a mapping
    OmegaConf.set_struct(config, False)
    of_device = find_device(setup.device).verl_settings(settings)
    parts = (_common(settings, setup, model), of_device, dict(settings.overrides))
    config = OmegaConf.merge(config, *map(OmegaConf.create, parts))
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
    except Exception as error:  # verl raises assertions, ValueErrors and Hydra's own errors
        raise UserError(f"backend=verl: verl refuses these settings: {str(error).strip().splitlines()[0]}") from error
    return config


def _common(settings: Verl, setup: Setup, model: str) -> dict[str, Any]:
    """Return the part of verl's config that follows from a run's settings, for all devices."""
    prompt, response = setup.policy.max_prompt_length, setup.policy.max_response_length
    return {
        "algorithm": {"adv_estimator": "grpo"},  # not used: bepo.runs.train computes advantages
        "data": {
            "train_batch_size": setup.trajectories,
            "max_prompt_length": prompt,
            "max_response_length": response,
            "dataloader_num_workers": 0,
        },
        "actor_rollout_ref": {
            "model": _model(settings, setup, model) | _adapters(setup, model),
            "actor": _actor(settings, setup),
            "ref": {"fsdp_config": _fsdp(settings)},
            "rollout": {
                "name": "vllm",
                "n": 1,  # each row has its own number of trajectories
                "temperature": setup.sampling.temperature,
                "prompt_length": prompt,
                "response_length": response,
                "max_model_len": prompt + response,
                "tensor_model_parallel_size": settings.tensor_parallel_size,
                "gpu_memory_utilization": settings.gpu_memory_utilization,
                "load_format": "auto",
                "enable_prefix_caching": True,  # verl's default: common prefixes of prompts are computed once
                "seed": crc32(setup.folder.name.encode()) >> 1,  # of each replica's stream; differs between runs
                "calculate_log_probs": True,
                "agent": {
                    "num_workers": settings.agent_workers,
                    "default_agent_loop": "bepo",
                    "agent_loop_config_path": str(_LOOP),
                },
                "checkpoint_engine": {
                    "update_weights_bucket_megabytes": find_device(setup.device).bucket_megabytes(model)
                },
            },
        },
        "critic": _critic(settings, setup, model),
        "reward": {"num_workers": 0},
        "transfer_queue": {"enable": True, "backend": {"SimpleStorage": {"num_data_storage_units": settings.nodes}}},
        "trainer": {
            "device": setup.device,
            "nnodes": settings.nodes,
            "n_gpus_per_node": settings.n_gpus,
            "total_training_steps": setup.updates,
            "resume_mode": "disable",  # the run decides which checkpoint to load
            "logger": [],
            "project_name": "bepo",
            "experiment_name": setup.folder.name,
            "default_local_dir": str(setup.folder),
        },
    }


def _model(settings: Verl, setup: Setup, model: str) -> dict[str, Any]:
    """Return the settings of the model. Transitions are packed without padding.

    With pictures, packing needs FlashAttention: verl packs them only for that kernel.
    """
    kind = attention(settings, setup.device)
    return {
        "path": model,
        "external_lib": "bepo.training.verl.losses",
        "enable_gradient_checkpointing": setup.policy.recomputes_activations,
        "override_config": {"attn_implementation": kind, "freeze_vision": not setup.policy.trains_vision},
        "use_remove_padding": kind == "flash_attention_2" or not setup.policy.reads_pictures,
        "use_fused_kernels": "energy"
        not in setup.needs,  # compute log-probabilities of 512 tokens at a time, to keep few logits in memory
    }


def _adapters(setup: Setup, model: str) -> dict[str, Any]:
    """Return the settings of LoRA. vLLM gets the weights with the adapters added to them."""
    lora = setup.policy.lora
    if not lora.rank:
        return {}
    modules: list[str] | str = list(lora.modules) or "all-linear"
    if lora.layers:  # peft reads a text as a regular expression for the whole name of a layer
        n = AutoConfig.from_pretrained(model).get_text_config().num_hidden_layers
        upper = "|".join(map(str, range(n - lora.layers, n)))
        modules = rf".*\.layers\.({upper})\..*({'|'.join(lora.modules) or '[a-z]+_proj'})"
    return {
        "lora_rank": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": modules,
        "exclude_modules": None if setup.policy.trains_vision else r".*\.visual\..*",
        "lora": {"merge": True},
    }


def _micro_batch_tokens(settings: Verl, setup: Setup) -> int:
    """Return the maximum number of tokens of a micro-batch, which is lower for torch's attention on packed tokens."""
    if attention(settings, setup.device) == "flash_attention_2" or setup.policy.reads_pictures:
        return settings.micro_batch_tokens
    longest = setup.policy.max_prompt_length + setup.policy.max_response_length
    return min(settings.micro_batch_tokens, max(_FULL_TRANSITIONS * longest, _LEAST_TOKENS))


def _actor(settings: Verl, setup: Setup) -> dict[str, Any]:
    training = setup.training
    return {
        "strategy": "fsdp2",
        "optim": _optimiser(training.learning_rate, training.weight_decay, training.max_grad_norm)
        | {"betas": [training.beta1, training.beta2]},
        "grad_clip": training.max_grad_norm,
        "ppo_mini_batch_size": 1,  # ``StagedTrainer.update`` sets it, and the epochs and their order
        "shuffle": False,
        "use_dynamic_bsz": True,  # transitions vary in number and length
        "ppo_max_token_len_per_gpu": _micro_batch_tokens(settings, setup),
        "policy_loss": {"loss_mode": LOSS},
        "entropy_coeff": training.entropy_coef,
        "calculate_entropy": True,
        "use_kl_loss": training.kl_coef > 0,
        "kl_loss_coef": training.kl_coef,
        "kl_loss_type": "low_var_kl",
        "loss_agg_mode": AGGREGATION[setup.loss.aggregation],
        "loss_scale_factor": setup.loss.length,
        "fsdp_config": _fsdp(settings),
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", policy_after(setup.updates)]},
    }


def _critic(settings: Verl, setup: Setup, model: str) -> dict[str, Any]:
    critic = setup.training.critic
    return {
        "enable": setup.needs_critic,
        "strategy": "fsdp2",
        "optim": _optimiser(critic.learning_rate, critic.weight_decay, critic.max_grad_norm),
        "grad_clip": critic.max_grad_norm,
        "cliprange_value": critic.clip_eps,
        "ppo_mini_batch_size": 1,
        "shuffle": False,
        "use_dynamic_bsz": True,
        "ppo_infer_max_token_len_per_gpu": _micro_batch_tokens(settings, setup),  # verl reads it for updates too
        "model": _model(settings, setup, model) | {"external_lib": None, "use_fused_kernels": False},
        "fsdp": _fsdp(settings),
    }


def _optimiser(learning_rate: float, weight_decay: float, clip: float) -> dict[str, Any]:
    return {"lr": learning_rate, "weight_decay": weight_decay, "clip_grad": clip}


def _fsdp(settings: Verl) -> dict[str, Any]:
    return {"strategy": "fsdp2", "param_offload": settings.offload, "optimizer_offload": settings.offload}
