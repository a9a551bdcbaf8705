"""Checks that a machine has everything for backend=verl."""

from __future__ import annotations

import shutil
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from bepo.core.errors import Missing, UserError
from bepo.training.verl.devices import INSTALL, check_package, find_device

if TYPE_CHECKING:
    from bepo.training.backends.verl import Verl

NEEDED = {"verl": "0.9.1", "ray": None, "TransferQueue": None}  # packages and their versions; None: any version
FLASH_ATTENTION = "backend.attention=sdpa, or pip install --no-build-isolation -r requirements/flash-attn.txt"
SHARED_MEMORY = 1 << 30  # bytes for Ray's object store and for weights on their way to vLLM


def check(settings: Verl) -> str:
    """Return the device. Raises ``UserError`` if packages, GPUs, memory or ports are missing, with what to do."""
    name = _device(settings)
    for package, needed in NEEDED.items():
        check_package(package, needed, INSTALL[name])
    device = find_device(name)
    check_package(*device.vllm, INSTALL[name])
    free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else 0
    if free < SHARED_MEMORY:
        problem = f"backend=verl: /dev/shm has {free >> 20} MiB free, it needs {SHARED_MEMORY >> 20}"
        raise Missing(problem, "start the container with --shm-size=8g, or mount -o remount,size=8G /dev/shm")
    device.check(settings)
    _check_ports()
    if attention(settings, name) != "sdpa" and not _has_flash_attention():
        raise Missing("backend.attention=flash_attention_2 needs flash-attn", FLASH_ATTENTION)
    return name


def attention(settings: Verl, device: str) -> str:
    """Return transformers' name of the implementation of attention in training."""
    if settings.attention == "auto":
        return "flash_attention_2" if device == "cuda" and _has_flash_attention() else "sdpa"
    return settings.attention


def _has_flash_attention() -> bool:
    return find_spec("flash_attn") is not None


def _device(settings: Verl) -> str:
    has_gpu = torch.cuda.is_available()
    if settings.device == "cpu" or (settings.device == "auto" and not has_gpu):
        return "cpu"
    if not has_gpu:
        raise UserError("backend.device=cuda, but torch finds no GPU; choices: auto, cpu")
    if settings.nodes == 1 and settings.n_gpus > torch.cuda.device_count():
        raise UserError(f"backend.n_gpus={settings.n_gpus}, but this machine has {torch.cuda.device_count()}")
    return "cuda"


def _check_ports() -> None:
    """Raise ``UserError`` if no TCP port can be opened."""
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        raise UserError(f"backend=verl: no free TCP port on 127.0.0.1 ({error.strerror})") from error
