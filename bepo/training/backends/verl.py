"""verl, vLLM, Ray and FSDP as a backend, on one or many GPUs; on a CPU for tests.

This is the only file of the backend that is imported on a machine without verl.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.training.backends import Backend, Setup, register

if TYPE_CHECKING:
    from bepo.training.verl.engine import VerlEngine


@register
@dataclass
class Verl(Backend):
    """Ray processes on ``nodes`` x ``n_gpus`` devices: FSDP2 trains, vLLM generates, and workers run environments."""

    name: Literal["verl"] = "verl"
    device: Literal["auto", "cpu", "cuda"] = setting("auto", identity=False)
    """The models' device; ``auto`` uses GPUs if torch finds them, ``cpu`` is for tests of the whole stack."""
    n_gpus: int = setting(1, at_least=1, identity=False)
    """Number of devices of a node; each is one training rank. On a CPU, ranks are processes."""
    nodes: int = setting(1, at_least=1, identity=False)
    """Number of nodes. More than one need a Ray cluster at RAY_ADDRESS."""
    tensor_parallel_size: int = setting(1, at_least=1, identity=False)
    """Number of devices of one vLLM replica; there are nodes x n_gpus / tensor_parallel_size replicas."""
    micro_batch_tokens: int = setting(16384, at_least=1, identity=False)
    """Maximum number of tokens of a device in one pass. It changes only rounding. For text with torch's own attention,
    four transitions of full length (at least 1,024 tokens) are the limit too, because the cost is quadratic."""
    attention: Literal["auto", "flash_attention_2", "sdpa"] = setting("auto", identity=False)
    """The implementation of attention in training; it changes rounding. ``auto``: FlashAttention if flash-attn is
    installed, else torch's own (``sdpa``)."""
    gpu_memory_utilization: float = setting(0.5, above=0, below=1, identity=False)
    """Share of a device's memory that vLLM may use during generation."""
    request_seeds: bool = setting(True, neutral=True)
    """Whether each response has a separate seed, so that a run is reproducible up to rounding. If false, all responses
    of a vLLM replica share one random stream: faster, but not reproducible (docs/gpu.md)."""
    offload: bool = setting(False, identity=False)
    """Whether to keep unused parameters and optimiser states in CPU memory."""
    env_workers: int = setting(4, at_least=1, identity=False)
    """Number of processes that run environments."""
    agent_workers: int = setting(1, at_least=1, identity=False)
    """Number of processes that run episodes with vLLM."""
    patience: int = setting(3600, at_least=1, identity=False)
    """Timeout of a stage in seconds. A stage that takes longer ends the program."""
    verbose: bool = setting(False, identity=False)
    """Whether to show the output of verl's processes. If false, it goes to the run's verl.log and Ray's session
    folder."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """verl's own settings, merged last, such as ``+backend.overrides.actor_rollout_ref.rollout.max_num_seqs=64``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.world_size % self.tensor_parallel_size:
            raise UserError(
                f"backend.tensor_parallel_size={self.tensor_parallel_size} does not divide the {self.world_size} "
                f"devices of backend.nodes={self.nodes} x backend.n_gpus={self.n_gpus}"
            )

    @property
    def world_size(self) -> int:
        """The number of devices of a run, on all nodes."""
        return self.nodes * self.n_gpus

    def resolve(self) -> str:
        """Return the device to use, and prepare this process for it.

        Raises ``UserError`` if a package, GPUs, memory or ports are missing.
        """
        from bepo.training.verl.devices import find_device
        from bepo.training.verl.machine import check

        device = check(self)
        find_device(device).prepare()
        return device

    def missing(self) -> Missing | None:
        """Return the first package or resource that this machine lacks, and what to do about it."""
        from bepo.training.verl.machine import check

        try:
            check(self)
        except Missing as missing:
            return missing
        return None

    def start(self, setup: Setup) -> VerlEngine:
        """Start Ray and every process of the run, and return the engine.

        Their output goes to the run's ``verl.log``. Raises ``UserError`` if a process cannot start.
        """
        from bepo.training.verl.quiet import Quiet

        quiet = Quiet(None if self.verbose else setup.folder / "verl.log")
        with quiet:  # verl and vLLM print during import too
            from bepo.training.verl.engine import VerlEngine

        return VerlEngine(self, setup, quiet)
