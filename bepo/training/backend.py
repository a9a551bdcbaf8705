"""Backends: who holds the weights, samples episodes with them and updates them. Each is registered by its settings.

``bepo.train`` decides what happens when; an ``Engine`` does it. Tasks, prompts, environments, credit estimators,
evaluation and records are the same for every backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from bepo import plugins
from bepo.agents import Agent
from bepo.collect import Sampling
from bepo.envs import Environment, Task
from bepo.evaluate import Evaluation
from bepo.panels import Panel
from bepo.policies import PolicyConfig
from bepo.rollout import RolloutGroup
from bepo.training import Optimisation


@dataclass(frozen=True)
class Setup:
    """What an engine starts from."""

    env: Environment
    agent: Agent
    policy: PolicyConfig
    training: Optimisation
    evaluation: Evaluation
    sampling: Sampling  # of training rollouts
    trajectories: int  # of one update
    updates: int
    needs_critic: bool
    panels: dict[str, Panel]
    device: str
    cache: Path  # for warm starts, shared by runs
    folder: Path  # of this run


class Engine(Protocol):
    """A running backend. ``facts`` go into the record: ``backend``, ``device``, ``world_size``, ``versions``.

    ``end_token`` (an id) tells a response that ended from one that was cut at the same length.
    """

    facts: dict[str, Any]
    end_token: int

    def collect(self, tasks: Sequence[Task], size: int, sampling: Sampling, seed: int) -> RolloutGroup:
        """As ``bepo.collect.collect``, with the current policy."""

    def evaluate_tokens(self, group: RolloutGroup) -> dict[str, float]:
        """What the models say about a group before an update; fills in ``group.tokens.value``, where there is a critic.
        Returns seconds by stage."""

    def update(
        self,
        group: RolloutGroup,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        target: Float[np.ndarray, " R"] | None,
    ) -> dict[str, float]:
        """PPO on the group's records, logged as ``train/<name>``; ``target`` is what the critic is fitted to."""

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...

    def close(self) -> None:
        """Let go of every process; called however the run ends."""


class Backend(Protocol):
    """A dataclass of settings."""

    name: str

    def resolve(self) -> str:
        """The device; raises ``UserError`` where the machine or the installation cannot do what is asked for."""

    def start(self, setup: Setup) -> Engine: ...


REGISTRY: dict[str, type[Backend]] = {}


def register(cls: type) -> type:
    """Class decorator: make the backend known under its ``name``."""
    REGISTRY[cls.name] = cls
    return cls


def backends() -> dict[str, type[Backend]]:
    """Every backend by name; imports the files of ``bepo.training`` once."""
    return plugins.load(__package__, REGISTRY)
