"""The backend with one process: policy, learner and environments, on one device."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.training.backends import Backend, Setup, register

if TYPE_CHECKING:
    from bepo.training.local_engine import LocalEngine


@register
@dataclass
class Local(Backend):
    """Runs everything in this process, on one device."""

    name: Literal["local"] = "local"
    device: Literal["auto", "cpu", "cuda"] = setting("auto", identity=False)
    """The model's device; ``auto`` uses a GPU if torch finds one."""
    threads: int = setting(1, at_least=1, at_most=1024, identity=False)
    """Number of CPU threads. It changes rounding, so each session of a run records it, and another number fits another
    warm start. A run goes on only with the start that it began with."""

    def resolve(self) -> str:
        """Return the device to use, and set torch's number of threads.

        Raises ``UserError`` if CUDA is chosen but torch finds no GPU.
        """
        import torch

        if self.device == "cuda" and (missing := gpu_missing()):
            raise UserError(f"backend.device=cuda: {missing}; choices: auto, cpu")
        torch.set_num_threads(self.threads)
        return "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"

    def missing(self) -> Missing | None:
        """Return why torch cannot use a GPU, if the settings ask for one."""
        return gpu_missing() if self.device == "cuda" else None

    def start(self, setup: Setup) -> LocalEngine:
        """Build the policy, run its warm start if it has one, and return the engine."""
        from bepo.training.local_engine import LocalEngine

        return LocalEngine(setup)


def gpu_missing() -> Missing | None:
    """Return why torch cannot use a GPU on this machine; None if it can."""
    import torch

    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None and shutil.which("nvidia-smi"):
        wheel = torch.__version__.split("+")[0]
        problem = "torch is a CPU build, but this machine has a GPU"
        return Missing(problem, f"pip install --force-reinstall torch=={wheel}")
    return Missing("torch finds no GPU", "nvidia-smi (on a machine with an NVIDIA GPU, to see that its driver works)")
