"""Starts Ray, and describes failures of its processes in one line."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from omegaconf import DictConfig, OmegaConf
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from bepo.core.errors import UserError
from bepo.training.verl.devices import find_device
from bepo.training.verl.lifetime import MARK

if TYPE_CHECKING:
    from bepo.training.backends.verl import Verl


def start_ray(config: DictConfig, settings: Verl, device: str, mark: str) -> Path:
    """Start a new Ray instance, or join the cluster at RAY_ADDRESS; Ray's processes inherit the mark.

    Returns the folder of its logs. Raises ``UserError`` for several nodes if RAY_ADDRESS is not set.
    """
    options: Any = OmegaConf.to_container(config.ray_kwargs.ray_init)
    runtime = get_ppo_ray_runtime_env(config)
    runtime["env_vars"] = runtime.get("env_vars", {}) | find_device(device).environment() | {MARK: mark}
    options["runtime_env"] = runtime | {k: v for k, v in options.get("runtime_env", {}).items() if v is not None}
    if settings.nodes > 1 and "RAY_ADDRESS" not in os.environ:
        raise UserError(f"backend.nodes={settings.nodes}: start Ray on every node and set RAY_ADDRESS (docs/gpu.md)")
    if "RAY_ADDRESS" in os.environ:
        for name in ("num_cpus", "num_gpus", "object_store_memory"):
            options.pop(name, None)
    else:
        options["address"] = "local"
    os.environ[MARK] = mark
    try:
        context: Any = ray.init(log_to_driver=settings.verbose, logging_level=logging.ERROR, **options)
    finally:
        del os.environ[MARK]
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C; Ray's handler prints nothing
    return Path(context.address_info["session_dir"]) / "logs"


def describe_failure(error: BaseException) -> str:
    """Return the cause of a failure of Ray's processes in one line and, if known, what to do about it."""
    text = str(error)
    if isinstance(error, ray.exceptions.OutOfMemoryError) or "OutOfMemory" in text or "out of memory" in text:
        return (
            "a worker ran out of memory: lower backend.micro_batch_tokens or backend.gpu_memory_utilization, "
            "or set backend.offload"
        )
    if isinstance(error, ray.exceptions.RayActorError):
        return f"a worker process died ({_last_line(text)}); the kernel may have killed it for lack of memory"
    if "Address already in use" in text:
        return "another program took a port of verl or vLLM: repeat the command"
    if "No space left on device" in text or "shared memory" in text:
        return f"not enough shared memory in /dev/shm ({_last_line(text)})"
    return _last_line(text) or type(error).__name__


def _last_line(text: str) -> str:
    """Return the first 300 characters of the last line that is not blank; empty if all lines are blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
