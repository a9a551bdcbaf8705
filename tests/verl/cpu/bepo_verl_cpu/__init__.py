"""A CPU for backend=verl with tiny models: settings that vLLM's CPU build, verl and Ray need only on a CPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch

from bepo.core.errors import UserError
from bepo.training.verl.devices import Device

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from bepo.training.backends.verl import Verl

HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)  # that vLLM's CPU attention is built for
MEMORY = 5 << 30  # bytes that one rank's processes need with a tiny model
_ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "bepo.training.verl.patches,bepo_verl_cpu.platform",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # the FSDP engines are registered for CUDA, and know no device inside
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # or vLLM refuses to run its worker in the engine's process
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


class CPU(Device):
    """One process a rank, in float32."""

    vllm = ("vllm-cpu", "0.28.0")

    def check(self, settings: Verl) -> None:
        """Raise ``UserError`` if too little memory is free."""
        free, needed = free_memory(), settings.n_gpus * MEMORY
        if free < needed:
            raise UserError(f"backend=verl: {free / 2**30:.1f} GiB of memory free, it needs {needed / 2**30:.0f}")

    def check_model(self, config: PreTrainedConfig) -> None:
        """Raise ``UserError`` for attention heads of a size that vLLM's CPU attention is not built for.

        Some architectures have no ``head_dim`` in their config.
        """
        size = config.to_dict().get("head_dim") or config.hidden_size // config.num_attention_heads
        if size not in HEAD_SIZES:
            known, heads = ", ".join(map(str, HEAD_SIZES)), max(config.hidden_size // 32, 1)
            raise UserError(
                f"backend=verl: attention heads of {size} numbers (policy.hidden_size / policy.num_attention_heads); "
                f"vLLM on a CPU knows {known}: try policy.num_attention_heads={heads}"
            )

    def bucket_megabytes(self, model: str) -> int:
        """Return 16, or more if the embedding needs it: shared memory takes no weight larger than a bucket."""
        from transformers import AutoConfig

        text = AutoConfig.from_pretrained(model).get_text_config()
        return max(16, text.vocab_size * text.hidden_size * 4 // 2**20 + 1)

    def environment(self) -> dict[str, str]:
        """Return the environment variables of every device, and those of a CPU."""
        return super().environment() | _ENVIRONMENT

    def prepare(self) -> None:
        """Also let torch use one thread in this process, where a policy may be warm-started; Ray needs the others."""
        super().prepare()
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray counts its devices against the ranks
        torch.set_num_threads(1)

    def verl_settings(self, settings: Verl) -> dict[str, Any]:
        """Return float32, no compilation, no sleep mode, small buffers, and Ray's resources."""
        full = {"mixed_precision": {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}}
        plain = {"use_torch_compile": False, **full}
        executor = "uni" if settings.tensor_parallel_size == 1 else "mp"  # without it, one process more for a device
        return {
            "actor_rollout_ref": {
                "actor": {"fsdp_config": plain, "use_torch_compile": False},
                "ref": {"fsdp_config": plain},
                "rollout": {
                    "dtype": "float32",
                    "enforce_eager": True,
                    "free_cache_engine": False,
                    "engine_kwargs": {"vllm": {"distributed_executor_backend": executor}},
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


def free_memory() -> int:
    """Return the bytes of memory that are free on this machine."""
    import psutil

    return psutil.virtual_memory().available
