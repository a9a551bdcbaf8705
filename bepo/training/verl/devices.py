"""The parts of backend=verl that depend on the type of device. CUDA is here; other types are separate distributions.

The CPU, for tests, is in ``tests/verl/cpu``.
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

GROUP = "bepo.verl_devices"  # entry points: the name of a device and its class
INSTALL = {"cpu": "make verl, then .venv-verl/bin/python", "cuda": GPU_ENVIRONMENT}  # how to install missing packages
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
    """CUDA, and the base class of other types of devices, which register an entry point of ``GROUP``."""

    vllm = ("vllm", "0.24.0")
    """The name of vLLM's distribution, and its version."""

    def check(self, settings: Verl) -> None:
        """Raise ``UserError`` if this machine does not support the settings."""

    def check_model(self, config: PreTrainedConfig) -> None:
        """Raise ``UserError`` if vLLM cannot run a language model with this config here."""

    def bucket_megabytes(self, model: str) -> int:
        """Return the size of a bucket of weights on the way to vLLM. ``model`` is a folder or a name on the hub."""
        return 2048

    def environment(self) -> dict[str, str]:
        """Return the environment variables of every process of an engine."""
        return dict(_ENVIRONMENT)

    def prepare(self) -> None:
        """Set the environment variables that verl, vLLM and Ray read at import; child processes inherit them."""
        os.environ.update(self.environment())

    def verl_settings(self, settings: Verl) -> dict[str, Any]:
        """Return the values of verl's config that differ from its defaults on this device."""
        return {}


def find_device(name: str) -> Device:
    """Return the device with a name. Raises ``Missing`` if its distribution is not installed."""
    if name == "cuda":
        return Device()
    for entry in entry_points(group=GROUP, name=name):
        return entry.load()()
    raise Missing(f"backend=verl needs bepo-verl-{name}, which {sys.prefix} does not have", INSTALL[name])


def check_package(name: str, needed: str | None, install: str) -> None:
    """Raise ``Missing`` if a distribution is not installed, or its version is not ``needed``."""
    try:
        installed = version(name)
    except PackageNotFoundError:
        raise Missing(f"backend=verl needs {name}, which {sys.prefix} does not have", install) from None
    if needed and installed != needed:
        raise Missing(f"backend=verl is made for {name} {needed}, {sys.prefix} has {installed}", install)
