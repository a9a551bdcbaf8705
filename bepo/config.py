"""What a run is made of: the config's schema, its choices, and the identity that names a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from bepo.agents import Agent
from bepo.collect import Sampling
from bepo.credit import estimators
from bepo.envs import environments
from bepo.errors import UserError
from bepo.evaluate import Evaluation
from bepo.policies import policies
from bepo.tracking import Tracking
from bepo.training import Optimisation
from bepo.training.backend import backends

METHOD_VERSION = 1  # of everything in a run that is no plug-in: raise it when the same config gives other numbers


@dataclass
class Rollout:
    """Data of one update (paper, supplement, Table "Environment- and backbone-specific settings")."""

    tasks: int = 16
    """Task instances per update."""
    size: int = 8
    """K, trajectories per task."""
    grouped: bool = True
    """False: tasks x size different tasks with one trajectory each, for estimators that compare none (PPO)."""
    train_tasks: int = 4096
    """Tasks in the training panel; updates draw from it without replacement until it is used up."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1

    def __post_init__(self) -> None:
        for name in ("tasks", "size", "train_tasks"):
            if getattr(self, name) < 1:
                raise UserError(f"rollout.{name}={getattr(self, name)}: at least 1")
        if self.top_p != 1 or self.top_k != -1:
            raise UserError(
                f"rollout.top_p={self.top_p}, rollout.top_k={self.top_k}: training samples from the whole distribution "
                "(1.0 and -1), or a token could have no probability under the updated policy"
            )

    @property
    def n_tasks(self) -> int:
        """Tasks of one update."""
        return self.tasks if self.grouped else self.tasks * self.size

    @property
    def group_size(self) -> int:
        """Trajectories of each of them."""
        return self.size if self.grouped else 1

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.top_k)


@dataclass
class Config:
    """Everything a run is made of. The fields of ``IDENTITY`` decide its id; the rest cannot change its result."""

    env: Any = MISSING
    policy: Any = MISSING
    credit: Any = MISSING
    backend: Any = MISSING
    agent: Agent = field(default_factory=Agent)
    rollout: Rollout = field(default_factory=Rollout)
    training: Optimisation = field(default_factory=Optimisation)
    evaluation: Evaluation = field(default_factory=Evaluation)
    updates: int = 150
    seed: int = 0
    """Training seed: tasks, rollouts and minibatches follow from it."""
    scale: str = MISSING
    """Name of the tier. With ``model`` it names the policy preset, ``conf/policy/<scale>_<model>.yaml``."""
    model: Literal["small", "large", "qwen3", "vl"] = "small"
    """Which of the paper's models the policy is, or stands for."""
    tracking: Tracking = field(default_factory=Tracking)
    results: str = "results"
    """Folder for run records, panels and warm starts."""
    checkpoint_every: int = 10
    """Updates between checkpoints."""
    save_rollouts: int = 0
    """Keep the rollout group of every n-th update in the record; 0 for none."""
    progress: bool = True
    study: dict[str, Any] = field(default_factory=dict)
    """What an experiment file says about itself: its question, and the artefacts it fills."""

    def __post_init__(self) -> None:
        for name in ("updates", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: at least 1")
        if getattr(self.policy, "constrained", False) and getattr(self.env, "free_text", False):
            raise UserError(f"policy.constrained=true picks among listed actions; {self.env.free_text}")


IDENTITY = (
    "env",
    "policy",
    "credit",
    "backend",
    "agent",
    "rollout",
    "training",
    "evaluation",
    "updates",
    "seed",
    "scale",
    "model",
)


def cell_overrides(overrides: Sequence[str]) -> list[str]:
    """Those that decide the result: they name a study's cell."""
    return [o for o in overrides if o.lstrip("+~").split("=")[0].split(".")[0] in IDENTITY]


def register_configs() -> None:
    """Hand every plug-in's dataclass to Hydra, so that a new file is a new choice."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config, replace=True)
    groups = {
        "env": environments(),
        "policy": policies(),
        "credit": estimators(),
        "backend": backends(),
    }
    for group, plugins in groups.items():
        for name, cls in plugins.items():
            store.store(group=group, name=name, node=cls, replace=True)


def identity_of(config: Config, device: str) -> dict[str, Any]:
    """What the run id is a hash of: everything that can change the result, with the versions of the code."""
    chosen = {name: getattr(config, name) for name in IDENTITY}
    parts = {n: asdict(v) if hasattr(v, "__dataclass_fields__") else v for n, v in chosen.items()}
    parts["backend"]["device"] = device
    versions = {n: v.method_version for n, v in chosen.items() if hasattr(v, "method_version")}
    return parts | {"method_versions": versions | {"run": METHOD_VERSION}}
