"""Backends: who holds the weights, samples episodes with them and updates them. Each is registered by its settings.

``bepo.runs.run`` decides what happens when, and an ``Engine`` does it. Tasks, prompts, environments, credit estimators,
evaluation and files are the same for every backend.

Sizes: R is the number of response tokens of a batch, laid end to end as in ``RolloutBatch.tokens``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

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
    """What an engine starts from: the parts of a run's config that it reads, and what the run derived from them."""

    env: Environment
    agent: Agent
    policy: PolicyConfig
    loss: Loss
    training: Optimisation
    evaluation: Evaluation
    sampling: Sampling  # how training rollouts are sampled
    trajectories: int  # trajectories of one update
    updates: int  # updates of the whole run
    needs_critic: bool  # does the credit estimator read values?
    task_sets: Mapping[Split, TaskSet]  # by split
    device: str  # "cpu" or "cuda", as ``Backend.resolve`` returned it
    cache: Path  # folder of warm starts, shared by all runs
    folder: Path  # folder of this run
    published: Path | None = None  # folder of published warm starts, which are taken where they fit
    weights: Path | None = None  # folder of a trained policy, in place of the one that the settings describe


@dataclass(frozen=True)
class Rollouts:
    """A batch on its way through an update, with what its engine needs to find its own data about it.

    ``remote`` belongs to the engine that made it: nothing else reads it. ``seconds`` are the durations of the engine's
    own stages by name, logged as ``time/<stage>``.
    """

    batch: RolloutBatch
    remote: Any = None
    seconds: dict[str, float] = field(default_factory=dict)

    def with_values(self, value: Float[np.ndarray, " R"]) -> Rollouts:
        """Return the same rollouts with a critic's value of every response token in ``batch.tokens.value``."""
        return replace(self, batch=replace(self.batch, tokens=replace(self.batch.language, value=value)))


class Engine(Protocol):
    """A running backend. Between two calls it keeps weights and processes, but remembers no rollouts.

    An update is ``collect``, ``prepare_batch``, ``update``, ``release``, each given what the one before returned.
    ``facts`` go into ``run.json``: ``backend``, ``device``, ``world_size``, ``versions`` and, where there is one,
    ``warm_start``. ``end_ids`` are the ids of the tokens that end a complete response; one that was cut at the token
    limit ends with another.
    """

    facts: dict[str, Any]
    end_ids: frozenset[int]

    def collect(
        self, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int, expert_steps: bool = False
    ) -> Rollouts:
        """Run ``group_size`` episodes of each task with the current policy, as ``bepo.rollouts.collect.collect`` does.

        Every draw follows from ``seed``. ``expert_steps`` fills these columns of the batch. Whatever ``remote`` refers
        to is kept until ``release``.
        """
        ...

    def prepare_batch(self, rollouts: Rollouts) -> Rollouts:
        """Return the rollouts with all that the models compute of them before an update.

        That is the critic's value of every response token, where there is a critic, ``batch.entropy`` where sampling
        does not tell it, and whatever else the engine's own ``update`` reads, such as log-probabilities. The argument
        is not changed.
        """
        ...

    def update(
        self,
        rollouts: Rollouts,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        returns: Float[np.ndarray, " R"] | None,
    ) -> dict[str, float]:
        """Update the policy, and the critic where there is one, on the rollouts that ``prepare_batch`` returned.

        ``advantage`` has one number for every response token. ``returns``, of the same shape, is what the critic is
        fitted to; None where there is no critic. The order of minibatches follows from ``seed``. Returns the statistics
        that are logged as ``train/<name>``.
        """
        ...

    def release(self, rollouts: Rollouts) -> None:
        """Free what the engine keeps of the rollouts."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the processes of the engine, this one among them, have used so far."""
        ...

    def save(self, folder: Path) -> None:
        """Write a checkpoint into an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Restore weights and optimisers from a checkpoint that ``save`` wrote."""
        ...

    def policy_in(self, folder: Path) -> Path:
        """Return where in a checkpoint the policy is, as a folder that transformers loads."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of token ids, special tokens included."""
        ...

    def close(self) -> None:
        """End every process of the engine. It is called however the run ends."""
        ...


class Backend(Plugin):
    """The settings of a backend; each backend is a dataclass that derives from this class."""

    group = "backend"

    @property
    def world_size(self) -> int:
        """The number of devices that a run takes."""
        return 1

    def resolve(self) -> str:
        """Return the device to use, ``"cpu"`` or ``"cuda"``.

        Raises ``UserError`` where the machine or the installation cannot do what the settings ask for.
        """
        raise NotImplementedError

    def start(self, setup: Setup) -> Engine:
        """Start the processes of a run and return its engine."""
        raise NotImplementedError


def collect_and_release(
    engine: Engine, tasks: Sequence[Task], group_size: int, sampling: Sampling, seed: int
) -> RolloutBatch:
    """Collect a batch that no update follows, as an evaluation does."""
    rollouts = engine.collect(tasks, group_size, sampling, seed)
    engine.release(rollouts)
    return rollouts.batch


backends = Registry[Backend](__name__, "backend", "backend")
register = backends.register
