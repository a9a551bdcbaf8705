"""The machine of a session: hardware, libraries and versions, which affect the last digits of numbers."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

PACKAGES = ("torch", "transformers", "numpy", "scipy", "hydra-core", "wandb", "verl", "vllm", "ray")


def machine() -> dict[str, Any]:
    """Return the model of the CPU, the instruction set that torch uses, threads, BLAS libraries and versions."""
    import torch

    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "blas": {"torch": _torch_blas(torch.__config__.show()), "numpy": _numpy_blas()},
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "system": platform.platform(),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def cpu_model() -> str:
    """Return the name of the CPU as Linux reports it; on other systems, as Python reports it."""
    info = Path("/proc/cpuinfo")
    match = re.search(r"^model name\s*: (.*)$", info.read_text(encoding="utf-8") if info.exists() else "", re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()


def _torch_blas(config: str) -> str:
    match = re.search(r"BLAS_INFO=(\w+)", config)
    return match[1] if match else "unknown"


def _numpy_blas() -> str:
    libraries = (lib for lib in threadpool_info() if lib["user_api"] == "blas")
    return ", ".join(sorted({f"{lib['internal_api']} {lib['version']}" for lib in libraries}))


def _versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
