"""verl, vLLM, Ray and FSDP as a backend: the same runs on one GPU or many, and on a CPU for tests.

On a machine without verl this file alone is imported.
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
    """Where models run; auto takes GPUs where torch finds them, and cpu is for tests of the whole stack."""
    n_gpus: int = setting(1, at_least=1, identity=False)
    """The number of devices of a node, which is the number of its training ranks; on a CPU, ranks are processes."""
    nodes: int = setting(1, at_least=1, identity=False)
    """The number of nodes; with more than one, they are those of the Ray cluster at RAY_ADDRESS."""
    tensor_parallel_size: int = setting(1, at_least=1, identity=False)
    """The number of devices of one vLLM replica; there are nodes x n_gpus / tensor_parallel_size replicas."""
    micro_batch_tokens: int = setting(16384, at_least=1, identity=False)
    """A device takes at most this many tokens in one pass, and where torch's own attention reads text, at most those of
    four transitions of full length (1,024 at least), as its cost grows with their square. Changes rounding only."""
    attention: Literal["auto", "flash_attention_2", "sdpa"] = setting("auto", identity=False)
    """What computes attention in training; rounding differs. auto takes FlashAttention where flash-attn is installed,
    and torch's own (sdpa) elsewhere."""
    gpu_memory_utilization: float = setting(0.5, above=0, below=1, identity=False)
    """The share of a device's memory that vLLM may use while it generates."""
    request_seeds: bool = setting(True, neutral=True)
    """Draw each response from a seed of its own, so that a run repeats but for rounding. false draws those of one vLLM
    replica from one stream, in the order in which they happen to be computed, which takes less time (docs/gpu.md)."""
    offload: bool = setting(False, identity=False)
    """Keep parameters and optimiser states in CPU memory while they are not used."""
    env_workers: int = setting(4, at_least=1, identity=False)
    """The number of processes that run environments."""
    agent_workers: int = setting(1, at_least=1, identity=False)
    """The number of processes that run episodes against vLLM."""
    patience: int = setting(3600, at_least=1, identity=False)
    """A stage that takes more than this many seconds counts as hung, and the program ends."""
    verbose: bool = setting(False, identity=False)
    """Show what verl's processes print; otherwise they write to the run's verl.log and to Ray's session folder."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """verl's own settings, merged last: ``+backend.overrides.actor_rollout_ref.rollout.max_num_seqs=64``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.world_size % self.tensor_parallel_size:
            raise UserError(
                f"backend.tensor_parallel_size={self.tensor_parallel_size} does not divide the {self.world_size} "
                f"devices of backend.nodes={self.nodes} x backend.n_gpus={self.n_gpus}"
            )

    @property
    def world_size(self) -> int:
        """The number of devices that a run takes, on all nodes."""
        return self.nodes * self.n_gpus

    def resolve(self) -> str:
        """Return the device to use, and prepare this process for it.

        Raises ``UserError`` for whatever is missing: verl, vLLM, GPUs, memory, shared memory, ports.
        """
        from bepo.training.verl.devices import find_device
        from bepo.training.verl.machine import check

        device = check(self)
        find_device(device).prepare()
        return device

    def missing(self) -> Missing | None:
        """Return the first package or resource that this machine lacks, with a remedy."""
        from bepo.training.verl.machine import check

        try:
            check(self)
        except Missing as missing:
            return missing
        return None

    def start(self, setup: Setup) -> VerlEngine:
        """Start Ray and every process of the run, and return the engine.

        What they print goes to the run's ``verl.log``. Raises ``UserError`` where a process cannot start.
        """
        from bepo.training.verl.quiet import Quiet

        quiet = Quiet(None if self.verbose else setup.folder / "verl.log")
        with quiet:  # verl and vLLM print while they are imported, too
            from bepo.training.verl.engine import VerlEngine

        return VerlEngine(self, setup, quiet)
