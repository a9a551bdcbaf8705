"""The backend of one process: policy, learner and environments together, on one device."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from bepo.core.errors import Missing, UserError
from bepo.core.settings import setting
from bepo.envs import Task
from bepo.rollouts.collect import Sampling, collect
from bepo.training.backend import Backend, Rollouts, Setup, register
from bepo.training.learner import LocalLearner
from bepo.training.warm_start import initial_policy

PACKAGES = ("torch", "transformers", "numpy", "hydra-core", "wandb")


@register
@dataclass
class Local(Backend):
    """Everything in this process, on one device."""

    name: Literal["local"] = "local"
    device: Literal["auto", "cpu", "cuda"] = setting("auto", identity=False)
    """Where the model runs; auto takes a GPU where torch finds one."""
    threads: int = setting(1, at_least=1, identity=False)
    """The number of CPU threads. Another number rounds differently, so each session of a run says its own."""

    def resolve(self) -> str:
        """Return the device to use, and set torch's number of threads.

        Raises ``UserError`` where CUDA is asked for and torch finds no GPU.
        """
        if self.device == "cuda" and (missing := gpu_missing()):
            raise UserError(f"backend.device=cuda: {missing}; choices: auto, cpu")
        torch.set_num_threads(self.threads)
        return "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"

    def missing(self) -> Missing | None:
        """Return why torch cannot use a GPU, where the settings ask for one."""
        return gpu_missing() if self.device == "cuda" else None

    def start(self, setup: Setup) -> LocalEngine:
        """Build the policy, after its warm start where it has one, and return the engine."""
        return LocalEngine(setup)


def gpu_missing() -> Missing | None:
    """Return why torch cannot use a GPU on this machine, or None where it can."""
    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None and shutil.which("nvidia-smi"):
        wheel = torch.__version__.split("+")[0]
        return Missing("torch is a CPU build beside a GPU", f"pip install --force-reinstall torch=={wheel}")
    return Missing("torch finds no GPU", "nvidia-smi (on a machine with an NVIDIA GPU, to see that its driver works)")


class LocalEngine:
    """A policy and its learner in this process. See ``bepo.training.backend.Engine`` for the methods."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.policy = setup, initial_policy(setup)
        self.learner = LocalLearner(self.policy, setup.loss, setup.training, setup.sampling, setup.needs_critic)
        self.end_token = self.policy.tokenizer.eos_token_id
        self.facts = {
            "backend": "local",
            "device": setup.device,
            "world_size": 1,
            "versions": {name: version(name) for name in PACKAGES},
        }

    def collect(
        self, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int, expert_steps: bool = False
    ) -> Rollouts:
        """Run ``group_size`` episodes of each task with the current policy; every draw follows from ``seed``."""
        env, agent = self.setup.env, self.setup.agent
        return Rollouts(collect(env, agent, self.policy, tasks, group_size, sampling, seed, expert_steps))

    def compute_values(self, rollouts: Rollouts) -> Rollouts:
        """Return the rollouts with the critic's values, or unchanged where there is no critic."""
        if self.learner.critic is None:
            return rollouts
        start = time.perf_counter()
        values = self.learner.critic.values(rollouts.batch.language, self.setup.training.micro_batch_tokens)
        return replace(rollouts.with_values(values), seconds={"values": time.perf_counter() - start})

    def update(
        self,
        rollouts: Rollouts,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        returns: Float[np.ndarray, " R"] | None,
    ) -> dict[str, float]:
        """Update policy and critic; returns the statistics of ``LocalLearner.update``."""
        return self.learner.update(rollouts.batch, advantage, seed, returns)

    def release(self, rollouts: Rollouts) -> None:
        """Do nothing, because the engine keeps nothing beside the batch."""

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of this process."""
        return time.process_time()

    def save(self, folder: Path) -> None:
        """Write a checkpoint: the policy in transformers' format, the optimiser, and the critic where there is one."""
        self.learner.save(folder)

    def load(self, folder: Path) -> None:
        """Restore what ``save`` wrote."""
        self.learner.load(folder)

    def policy_in(self, folder: Path) -> Path:
        """Return the policy's folder in a checkpoint."""
        return folder / "policy"

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of token ids, special tokens included."""
        return self.policy.tokenizer.batch_decode([list(row) for row in ids])

    def close(self) -> None:
        """Do nothing, because the engine has no other processes."""
