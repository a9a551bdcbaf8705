"""What of backend=verl depends on the kind of device. CUDA's is here; another kind is a distribution of its own.

The CPU's, for tests, is ``tests/verl/cpu``.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import TYPE_CHECKING, Any

from bepo.core.errors import GPU_ENVIRONMENT, Missing

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from bepo.training.backends.verl import Verl

GROUP = "bepo.verl_devices"  # of entry points: the name of a device and its class
REMEDY = {"cpu": "make verl, then .venv-verl/bin/python", "cuda": GPU_ENVIRONMENT}  # where packages are missing
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "0"),
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQ_NUM_THREADS": "1",
    "TRANSFER_QUEUE_ENABLE": "1",
    "VERL_USE_EXTERNAL_MODULES": "bepo.training.verl.patches",
}


class Device:
    """CUDA, and the base class of other kinds of devices, which are found by an entry point of ``GROUP``."""

    vllm = ("vllm", "0.24.0")
    """The distribution that vLLM is installed as, and its version."""
    bucket_megabytes = 2048
    """Weights on their way to vLLM at a time."""

    def check(self, settings: Verl) -> None:
        """Raise ``UserError`` where this machine lacks what the settings ask for."""

    def check_model(self, config: PreTrainedConfig) -> None:
        """Raise ``UserError`` for a language model with this config that vLLM cannot run here."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables of every process of an engine."""
        return dict(_ENVIRONMENT)

    def prepare(self) -> None:
        """Set what verl, vLLM and Ray read from the environment when they are imported; child processes inherit it."""
        os.environ.update(self.environment())

    def verl_settings(self, settings: Verl) -> dict[str, Any]:
        """Return what verl's config has on this device instead of its defaults."""
        return {}


def find_device(name: str) -> Device:
    """Return the kind of device by its name. Raises ``Missing`` where nothing is installed for it."""
    if name == "cuda":
        return Device()
    for entry in entry_points(group=GROUP, name=name):
        return entry.load()()
    raise Missing(f"backend=verl needs bepo-verl-{name}, which {sys.prefix} does not have", REMEDY[name])


def check_package(name: str, needed: str | None, remedy: str) -> None:
    """Raise ``Missing`` where a distribution is not installed, or in another version than ``needed``."""
    try:
        installed = version(name)
    except PackageNotFoundError:
        raise Missing(f"backend=verl needs {name}, which {sys.prefix} does not have", remedy) from None
    if needed and installed != needed:
        raise Missing(f"backend=verl is made for {name} {needed}, {sys.prefix} has {installed}", remedy)
