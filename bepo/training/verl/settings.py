"""verl's own config, from ours: its defaults as shipped, what a run determines, the backend's overrides."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import verl
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from bepo.errors import UserError
from bepo.training.backend import Setup
from bepo.training.verl import Verl

_DEFAULTS = Path(verl.__file__).parent / "trainer" / "config" / "_generated_ppo_trainer.yaml"
_LOOP = Path(__file__).parent / "agent_loop.yaml"
BUCKET = {"cpu": 16, "cuda": 2048}  # MiB of weights on their way to vLLM at a time


def compose(settings: Verl, setup: Setup, model: str) -> DictConfig:
    """Everything that verl needs to know, validated by verl. Raises ``UserError`` with what verl objects to.

    verl's tree is not composed by Hydra: its groups use parent paths, which Hydra 1.4 refuses.
    """
    config = OmegaConf.load(_DEFAULTS)
    OmegaConf.set_struct(config, False)
    parts = [_common(settings, setup, model)] + ([_cpu(settings)] if setup.device == "cpu" else [])
    config = OmegaConf.merge(config, *map(OmegaConf.create, parts), OmegaConf.create(dict(settings.overrides)))
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
    except Exception as error:  # assertions, ValueErrors and Hydra's, as it comes
        raise UserError(f"backend=verl: verl refuses these settings: {str(error).strip().splitlines()[0]}") from error
    return config


def optimiser_steps(settings: Verl, setup: Setup) -> int:
    """Optimiser steps of each epoch of an update."""
    full = setup.trajectories * setup.env.horizon
    return settings.optimiser_steps or math.ceil(full / setup.training.minibatch)


def _common(settings: Verl, setup: Setup, model: str) -> dict[str, Any]:
    prompt, response = setup.policy.max_prompt, setup.policy.max_response
    return {
        "algorithm": {"adv_estimator": "grpo"},  # not used: bepo.train computes advantages
        "data": {
            "train_batch_size": setup.trajectories,
            "max_prompt_length": prompt,
            "max_response_length": response,
            "dataloader_num_workers": 0,
        },
        "actor_rollout_ref": {
            "model": _model(setup, model),
            "actor": _actor(settings, setup),
            "ref": {"fsdp_config": _fsdp(settings)},
            "rollout": {
                "name": "vllm",
                "n": 1,  # rows say how many trajectories they are
                "temperature": setup.sampling.temperature,
                "prompt_length": prompt,
                "response_length": response,
                "max_model_len": prompt + response,
                "tensor_model_parallel_size": settings.tensor_parallel,
                "gpu_memory_utilization": settings.gpu_memory,
                "load_format": "auto",
                "calculate_log_probs": True,
                "agent": {
                    "num_workers": settings.agent_workers,
                    "default_agent_loop": "bepo",
                    "agent_loop_config_path": str(_LOOP),
                },
                "checkpoint_engine": {"update_weights_bucket_megabytes": BUCKET[setup.device]},
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
            "resume_mode": "disable",  # checkpoints are the run record's
            "logger": [],
            "project_name": "bepo",
            "experiment_name": setup.folder.name,
            "default_local_dir": str(setup.folder),
        },
    }


def _model(setup: Setup, model: str) -> dict[str, Any]:
    return {
        "path": model,
        "external_lib": "bepo.training.verl.losses",
        "enable_gradient_checkpointing": getattr(setup.policy, "gradient_checkpointing", False),
        "override_config": {"attn_implementation": "sdpa"} if setup.device == "cpu" else {},
        "use_remove_padding": setup.device != "cpu",
    }


def _actor(settings: Verl, setup: Setup) -> dict[str, Any]:
    training = setup.training
    return {
        "strategy": "fsdp2",
        "optim": _optimiser(training.learning_rate, training.weight_decay, training.grad_clip)
        | {"betas": [training.beta1, training.beta2]},
        "grad_clip": training.grad_clip,
        "ppo_mini_batch_size": 1,  # set before each update, from its number of records
        "ppo_epochs": training.epochs,
        "shuffle": True,
        "use_dynamic_bsz": True,  # records vary in number and length
        "ppo_max_token_len_per_gpu": settings.micro_batch_tokens,
        "policy_loss": {"loss_mode": f"bepo_{training.ratio}"},
        "clip_ratio": training.clip,
        "clip_ratio_low": training.clip,
        "clip_ratio_high": training.clip,
        "clip_ratio_c": training.dual_clip or 0.0,
        "entropy_coeff": training.entropy,
        "calculate_entropy": True,
        "use_kl_loss": training.kl > 0,
        "kl_loss_coef": training.kl,
        "kl_loss_type": "low_var_kl",
        "loss_agg_mode": "token-mean",
        "entropy_from_logits_with_chunking": True,  # entropy of all logits at once would be the largest tensor
        "freeze_vision_tower": getattr(setup.policy, "freeze_vision", False),
        "fsdp_config": _fsdp(settings),
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
    }


def _critic(settings: Verl, setup: Setup, model: str) -> dict[str, Any]:
    critic = setup.training.critic
    return {
        "enable": setup.needs_critic,
        "strategy": "fsdp2",
        "optim": _optimiser(critic.learning_rate, critic.weight_decay, critic.grad_clip),
        "grad_clip": critic.grad_clip,
        "cliprange_value": critic.clip,
        "ppo_epochs": setup.training.epochs,
        "ppo_mini_batch_size": 1,
        "use_dynamic_bsz": True,
        "ppo_max_token_len_per_gpu": settings.micro_batch_tokens,
        "model": _model(setup, model) | {"external_lib": None},
        "fsdp": _fsdp(settings),
    }


def _optimiser(learning_rate: float, weight_decay: float, clip: float) -> dict[str, Any]:
    return {"lr": learning_rate, "weight_decay": weight_decay, "clip_grad": clip}


def _fsdp(settings: Verl) -> dict[str, Any]:
    return {"strategy": "fsdp2", "param_offload": settings.offload, "optimizer_offload": settings.offload}


def _cpu(settings: Verl) -> dict[str, Any]:
    """What differs without a GPU: float32, no compilation, no sleep mode, small buffers, logical resources for Ray."""
    full = {"mixed_precision": {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}}
    plain = {"use_torch_compile": False, **full}
    return {
        "actor_rollout_ref": {
            "actor": {"fsdp_config": plain, "use_torch_compile": False},
            "ref": {"fsdp_config": plain},
            "rollout": {
                "dtype": "float32",
                "enforce_eager": True,
                "free_cache_engine": False,
                "engine_kwargs": {"vllm": {"distributed_executor_backend": "uni"}},  # a process less
                "enable_sleep_mode": False,
                "max_num_seqs": 64,
                "max_num_batched_tokens": 2048,
            },
        },
        "critic": {"fsdp": plain},
        "ray_kwargs": {
            "ray_init": {
                "num_cpus": 8 * settings.n_gpus,
                "num_gpus": settings.n_gpus,
                "include_dashboard": False,
                "object_store_memory": 300_000_000,
            }
        },
    }
