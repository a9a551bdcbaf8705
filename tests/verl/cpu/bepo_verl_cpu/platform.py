"""A CPU as a platform of verl, through verl's registry of platforms. verl imports this file in each of its processes.

Two functions of verl and torch are replaced, because they cannot work without an accelerator:
1. ``initialize_global_process_group_ray`` asks for "cpu:gloo,<device>:gloo", and torch refuses cpu twice.
2. ``CPUOffloadPolicy`` pins the reference model's memory, and pinning needs an accelerator.
"""

from __future__ import annotations

import types
from contextlib import contextmanager

import torch
import torch.distributed.fsdp
from verl.plugin.platform import PlatformBase, PlatformRegistry


class _DeviceId(str):
    """The only device's id, which works in ``tensor.to(id)`` and in ``torch.device(f"cpu:{id}")``."""

    def __format__(self, spec: str) -> str:
        return "0"


_DEVICE = _DeviceId("cpu")


def _nothing(*args: object, **kwargs: object) -> None:
    return None


def _zero(*args: object, **kwargs: object) -> int:
    return 0


def _memory(*args: object, **kwargs: object) -> tuple[int, int]:
    """Return the free and the whole memory of the machine in bytes."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.available, memory.total


class _DeviceModule(types.ModuleType):
    """``torch.cpu`` with the parts of ``torch.cuda`` that verl calls."""

    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = staticmethod(_zero)
    empty_cache = ipc_collect = set_device = synchronize = reset_peak_memory_stats = staticmethod(_nothing)
    mem_get_info = staticmethod(_memory)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: _DEVICE)
    get_device_name = staticmethod(lambda *args: "CPU")
    get_device_capability = staticmethod(lambda *args: (None, None))
    get_rng_state = staticmethod(lambda *args: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, *args: torch.set_rng_state(state))

    def __getattr__(self, name: str) -> object:
        return getattr(torch.cpu, name)


_MODULE = _DeviceModule("bepo_cpu_device")


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """A CPU for verl. Ray is told that a node has "GPU" slots, so that verl's placement works unchanged."""

    device_name = vendor_name = "cpu"
    device_module = _MODULE

    def is_available(self):
        """Return True: a CPU is always available."""
        return True

    def current_device(self):
        """Return the only device's id."""
        return _DEVICE

    def device_count(self):
        """Return 1, because each process sees one device."""
        return 1

    def set_device(self, device_index):
        """Do nothing: there is one device."""
        return None

    def synchronize(self, device_index=None):
        """Do nothing: a CPU has no queue of kernels."""
        return None

    def manual_seed(self, seed):
        """Seed torch's generator."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        """Seed torch's generator, which all devices share."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings):
        """Do nothing: the settings are those of CUDA's allocator."""
        return None

    def empty_cache(self):
        """Do nothing: torch keeps no cache of CPU memory."""
        return None

    def get_device_capability(self, device_index=0):
        """Return no compute capability."""
        return (None, None)

    def communication_backend_name(self):
        """Return the library for collective communication."""
        return "gloo"

    def visible_devices_envvar(self):
        """Return the variable that verl sets for each rank; a CPU ignores it."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        """Mark nothing for a profiler."""
        yield

    def profiler_start(self):
        """Do nothing, without a profiler."""
        return None

    def profiler_stop(self):
        """Do nothing, without a profiler."""
        return None

    def ray_resource_name(self):
        """Return Ray's name of a device slot."""
        return "GPU"

    def ray_noset_envvars(self):
        """Return the variables that keep Ray from hiding devices."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        """Return False: weights go to vLLM through /dev/shm."""
        return False

    def cudart(self):
        """Return None, without a CUDA runtime."""
        return None


import verl.utils.distributed  # noqa: E402

_initialise = verl.utils.distributed.initialize_global_process_group_ray


def _initialise_gloo(timeout_second=None, backend=None):
    return _initialise(timeout_second=timeout_second, backend=backend or "gloo")


verl.utils.distributed.initialize_global_process_group_ray = _initialise_gloo


class _Unpinned(torch.distributed.fsdp.CPUOffloadPolicy):
    def __init__(self, pin_memory: bool = False) -> None:
        object.__setattr__(self, "pin_memory", False)


torch.distributed.fsdp.CPUOffloadPolicy = _Unpinned
