"""The engine with one process: policy, learner and environments, on one device."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from bepo.envs import Task
from bepo.rollouts.collect import Sampling, collect
from bepo.rollouts.continuations import COLUMN, collect_continued
from bepo.training.backends import Rollouts, Setup, joined
from bepo.training.learner import LocalLearner
from bepo.training.starting_policy import start_metadata
from bepo.training.warm_start import initial_policy

PACKAGES = ("torch", "transformers", "numpy", "hydra-core", "wandb")


class LocalEngine:
    """A policy and its learner in this process. See ``bepo.training.backends.Engine`` for the methods."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.policy = setup, initial_policy(setup)
        self.learner = LocalLearner(self.policy, setup.loss, setup.training, setup.sampling, setup.needs_critic)
        self.end_ids = self.policy.end_ids
        self.metadata = {
            "backend": "local",
            "device": setup.device,
            "world_size": 1,
            "versions": {name: version(name) for name in PACKAGES},
            **start_metadata(setup),
        }

    def collect(
        self, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int, needs: Iterable[str] = ()
    ) -> Rollouts:
        """Run ``group_size`` episodes of each task with the current policy; every draw follows from ``seed``."""
        self.policy.forget()
        how = self.setup.env, self.setup.agent, self.policy, tasks, group_size, sampling, seed
        if COLUMN in needs:
            return Rollouts(collect_continued(*how, self.setup.n_continuations, needs))
        return Rollouts(collect(*how, needs))

    def join(self, parts: Sequence[Rollouts], kept: Sequence[Bool[np.ndarray, " G"]]) -> Rollouts:
        """Return one batch with the kept groups of several batches."""
        return Rollouts(joined(parts, kept))

    def prepare_batch(self, rollouts: Rollouts) -> Rollouts:
        """Return the rollouts with the critic's values; without a critic, return them unchanged."""
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
        """Do nothing: the engine keeps no data about the batch."""

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of this process."""
        return time.process_time()

    def save(self, folder: Path) -> None:
        """Write a checkpoint: the policy in transformers' format, the optimiser, and the critic if there is one."""
        self.learner.save(folder)

    def load(self, folder: Path) -> None:
        """Restore what ``save`` wrote."""
        self.learner.load(folder)

    def policy_in(self, folder: Path) -> Path:
        """Return the policy's folder in a checkpoint."""
        return folder / "policy"

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of token IDs, special tokens included."""
        return self.policy.tokenizer.batch_decode([list(row) for row in ids])

    def close(self) -> None:
        """Do nothing: the engine has no other processes."""
