"""Backends: they hold the weights, sample episodes and update the policy. Each file registers one backend's settings.

``bepo.runs.train`` calls the methods of an ``Engine``. All backends share everything else: tasks, prompts,
environments, credit estimators, evaluation and files.

Sizes: R is the number of response tokens of a batch, concatenated as in ``RolloutBatch.tokens``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float

from bepo.core.batch import RolloutBatch
from bepo.core.registry import Plugin, Registry
from bepo.envs import Environment, Split, Task
from bepo.losses import Loss
from bepo.policies import PolicyConfig
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling
from bepo.rollouts.evaluation import Evaluation
from bepo.rollouts.task_sets import TaskSet
from bepo.training import Optimisation


@dataclass(frozen=True)
class Setup:
    """The input of an engine: parts of a run's config, and values that the run derived from them."""

    env: Environment
    agent: Agent
    policy: PolicyConfig
    loss: Loss
    training: Optimisation
    evaluation: Evaluation
    sampling: Sampling  # of training rollouts
    trajectories: int  # trajectories of one update
    updates: int  # updates of the whole run
    needs_critic: bool  # whether the credit estimator reads values
    task_sets: Mapping[Split, TaskSet]  # by split
    device: str  # "cpu" or "cuda", from ``Backend.resolve``
    cache: Path  # folder of warm starts, shared by all runs
    folder: Path  # folder of this run
    published: Path | None = None  # folder of published warm starts, used if the settings are equal
    weights: Path | None = None  # folder of a trained policy that replaces the policy of the settings
    needs: frozenset[str] = frozenset()  # optional columns of the batch that the credit estimator reads
    n_continuations: int = 0  # from each state, if it needs continuations


@dataclass(frozen=True)
class Rollouts:
    """A batch during an update, with the engine's own data about it.

    Only the engine that made it reads ``remote``. ``seconds`` are the durations of the engine's stages by name, logged
    as ``time/<stage>``.
    """

    batch: RolloutBatch
    remote: Any = None
    seconds: dict[str, float] = field(default_factory=dict)

    def with_values(self, value: Float[np.ndarray, " R"]) -> Rollouts:
        """Return the same rollouts with a critic's value of every response token in ``batch.tokens.value``."""
        return replace(self, batch=replace(self.batch, tokens=replace(self.batch.language, value=value)))


class Engine(Protocol):
    """A running backend. Between two calls it keeps weights and processes, but no rollouts.

    For an update, call ``collect``, ``prepare_batch``, ``update`` and ``release`` with the result of the call before.
    ``join`` may follow several calls of ``collect``.
    ``metadata`` is for ``run.json``: ``backend``, ``device``, ``world_size``, ``versions`` and, if there is a
    warm start, ``warm_start``. ``end_ids`` are the IDs of the tokens that end a complete response. A response that was
    cut at the token limit ends with another token.
    """

    metadata: dict[str, Any]
    end_ids: frozenset[int]

    def collect(
        self, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int, needs: Iterable[str] = ()
    ) -> Rollouts:
        """Run ``group_size`` episodes of each task with the current policy, like ``bepo.rollouts.collect.collect``.

        Every draw follows from ``seed``. ``needs`` are optional columns of the batch (``Estimator.needs``). The engine
        keeps the data of ``remote`` until ``release``.
        """
        ...

    def join(self, parts: Sequence[Rollouts], kept: Sequence[Bool[np.ndarray, " G"]]) -> Rollouts:
        """Return one batch with the kept groups of several results of ``collect``, and free the other groups' data.

        ``kept`` has a flag for each group of each part; at least one group is kept.
        """
        ...

    def prepare_batch(self, rollouts: Rollouts) -> Rollouts:
        """Return the rollouts with all model outputs that an update needs.

        These are the critic's value of every response token (if there is a critic), the column ``entropy`` (if sampling
        does not give it), and inputs of the engine's ``update`` such as log-probabilities. The argument is not changed.
        """
        ...

    def update(
        self,
        rollouts: Rollouts,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        returns: Float[np.ndarray, " R"] | None,
    ) -> dict[str, float]:
        """Update the policy, and the critic if there is one, on the rollouts of ``prepare_batch``.

        ``advantage`` has one number for every response token. ``returns``, of the same shape, is the critic's target;
        None without a critic. The order of minibatches follows from ``seed``. Returns the statistics to log as
        ``train/<name>``.
        """
        ...

    def release(self, rollouts: Rollouts) -> None:
        """Free the engine's data about the rollouts."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the engine's processes so far, including this process."""
        ...

    def save(self, folder: Path) -> None:
        """Write a checkpoint into an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Restore weights and optimisers from a checkpoint that ``save`` wrote."""
        ...

    def policy_in(self, folder: Path) -> Path:
        """Return the policy's folder in a checkpoint, in transformers' format."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of token IDs, special tokens included."""
        ...

    def close(self) -> None:
        """End every process of the engine. It is called at every end of a run, also after errors."""
        ...


class Backend(Plugin):
    """The base class of backends: dataclasses of settings."""

    group = "backend"

    @property
    def world_size(self) -> int:
        """The number of devices of a run."""
        return 1

    def resolve(self) -> str:
        """Return the device to use, ``"cpu"`` or ``"cuda"``.

        Raises ``UserError`` if the machine or the installation does not support the settings.
        """
        raise NotImplementedError

    def start(self, setup: Setup) -> Engine:
        """Start the processes of a run, and return its engine."""
        raise NotImplementedError


def collect_and_release(
    engine: Engine, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int
) -> RolloutBatch:
    """Collect a batch without an update after it, as in an evaluation."""
    rollouts = engine.collect(tasks, group_size, sampling, seed)
    engine.release(rollouts)
    return rollouts.batch


def joined(parts: Sequence[Rollouts], kept: Sequence[Bool[np.ndarray, " G"]]) -> RolloutBatch:
    """Return the kept groups of several batches as one; see ``Engine.join``."""
    return RolloutBatch.concat([part.batch.of_groups(of_part) for part, of_part in zip(parts, kept) if of_part.any()])


backends = Registry[Backend](__name__, "backend", "backend")
register = backends.register
