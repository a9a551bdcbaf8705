"""What a run is made of: the schema of its config, and the identity that names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bepo.core.errors import UserError
from bepo.core.settings import Settings, identity, in_identity, neutral_defaults, setting
from bepo.credit import estimators
from bepo.envs import environments
from bepo.losses import losses
from bepo.policies import policies
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling
from bepo.rollouts.evaluation import Evaluation
from bepo.rollouts.prompting import Prompting
from bepo.store.files import folder_name
from bepo.store.tracking import Tracking
from bepo.training import Optimisation
from bepo.training.backends import backends

METHOD_VERSION = 2
"""The version of all that is no plug-in. Raise it when the same config gives other numbers."""
PLUGINS = {"env": environments, "credit": estimators, "loss": losses, "policy": policies, "backend": backends}
"""The parts of a config that are chosen by name, and what there is to choose from."""
TIERS = ("smoke", "laptop", "paper")
"""The tiers, from the least to the most meaningful."""
OF_UPDATES = ("credit", "loss", "training", "rollout", "seed")
"""The parts of a config that an evaluation has nothing of, beside the number of updates."""
_MISSING = "???"  # OmegaConf's word for a value that must be given


@dataclass
class Rollout(Settings):
    """Data of one update (paper, supplement, Table "Environment- and backbone-specific settings")."""

    tasks: int = setting(16, at_least=1, at_most=100_000)
    """Tasks per update, each the origin of one group of trajectories."""
    group_size: int = setting(8, at_least=1, at_most=100_000)
    """K, trajectories per task."""
    grouped: bool = True
    """False: tasks x group_size different tasks with one trajectory each, for estimators that compare none (PPO)."""
    train_tasks: int = setting(4096, at_least=1, at_most=1_000_000)
    """Size of the training set of tasks; updates draw from it without replacement until it is used up."""
    temperature: float = setting(1.0, above=0)
    """The temperature at which responses of training rollouts are drawn."""
    top_p: float = 1.0
    """Only 1: training samples from the whole distribution."""
    top_k: int = -1
    """Only -1: training samples from the whole distribution."""

    group = "rollout"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_p != 1 or self.top_k != -1:
            raise UserError(
                f"rollout.top_p={self.top_p}, rollout.top_k={self.top_k}: training samples from the whole distribution "
                "(1.0 and -1), or a token could have no probability under the updated policy"
            )

    @property
    def tasks_per_update(self) -> int:
        """Different tasks of one update."""
        return self.tasks if self.grouped else self.tasks * self.group_size

    @property
    def trajectories_per_task(self) -> int:
        """K, or 1 where tasks are not grouped."""
        return self.group_size if self.grouped else 1

    @property
    def sampling(self) -> Sampling:
        """How responses of training rollouts are drawn."""
        return Sampling(self.temperature, self.top_p, self.top_k)


@dataclass
class Config(Settings):
    """Everything a run is made of. A field that says ``identity=False`` does not change the experiment."""

    env: Any = _MISSING
    """The environment."""
    policy: Any = _MISSING
    """The language model that acts."""
    credit: Any = _MISSING
    """The estimator of the advantage of each step."""
    loss: Any = _MISSING
    """What an optimiser step lowers."""
    backend: Any = _MISSING
    """What samples responses and updates the policy."""
    agent: Agent = field(default_factory=Agent)
    """What prompts show, and how responses are read."""
    rollout: Rollout = field(default_factory=Rollout)
    """The episodes of one update."""
    training: Optimisation = field(default_factory=Optimisation)
    """The optimiser, and the terms of the loss beside the policy loss."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    """How success is measured."""
    updates: int = setting(150, at_least=0, at_most=1_000_000)
    """0: nothing is trained, the policy is evaluated as it is (``python -m bepo.evaluate``)."""
    run: str | None = setting(None, neutral=True)
    """The id of a finished run whose last policy is evaluated; only where ``updates`` is 0."""
    seed: int = setting(0, at_least=0)
    """Training seed: tasks, rollouts and minibatches follow from it."""
    tier: str = _MISSING
    """Name of the tier. With ``model`` it names the policy, ``conf/tier/<tier>/policy/<model>.yaml``."""
    model: Literal["small", "large", "qwen3", "vl", "closed"] = "small"
    """Which of the paper's models the policy is, or stands for; the closed ones are only served."""
    prompting: Prompting = setting(factory=Prompting, neutral=True)
    """How a served policy is asked; what is trained is asked directly."""
    tracking: Tracking = setting(factory=Tracking, identity=False)
    """Weights & Biases."""
    results: str = setting("results", identity=False)
    """Folder for runs, task sets and warm starts."""
    checkpoint_every: int = setting(10, at_least=1, identity=False)
    """Updates between checkpoints."""
    checkpoints: int = setting(2, at_least=0, identity=False)
    """Checkpoints that a run in progress keeps: with two, it goes on although the newest is damaged. With 0 it keeps
    one, which goes before the next is written where the disk lacks room for both: a kill meanwhile begins it anew."""
    keep: Literal["policy", "resume"] = setting("policy", identity=False)
    """What stays of a finished run's checkpoints: its policy, or all that a run of more updates needs to go on."""
    save_rollouts: int = setting(0, at_least=0, identity=False)
    """Keep the rollouts of every n-th update, whole; 0: only a few megabytes of the first, the middle and the last."""
    progress: bool = setting(True, identity=False)
    """Show a progress bar, where there is a terminal."""
    study: dict[str, Any] = setting(factory=dict, identity=False)
    """What an experiment file says about itself: its name and its question."""

    @property
    def is_evaluation(self) -> bool:
        """Whether the policy is evaluated, and not trained."""
        return self.updates == 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.results.strip():
            raise UserError(f"results={self.results}: must name a folder; . is the current one")
        if self.study:
            folder_name(self.study.get("name"), "study.name")
        if not all(isinstance(part, Settings) for part in (self.env, self.policy, self.credit)):
            return  # a schema, or a part that was left out
        if self.run is not None and not self.is_evaluation:
            raise UserError(
                f"run={self.run}: python -m bepo.evaluate evaluates a run's policy; no training starts from it"
            )
        if self.policy.served and not self.is_evaluation:
            raise UserError(f"policy={self.policy.name} is only served, not trained: python -m bepo.evaluate")
        if self.prompting.method != "direct" and not self.policy.served:
            raise UserError(
                f"prompting.method={self.prompting.method} asks a served model, which knows a language: "
                f"policy={self.policy.name} does not do; choices: policy=served, policy=vllm"
            )
        if not self.policy.served:
            _ = self.evaluation.sampling  # refuses a temperature of 0
        if self.policy.constrained and self.env.free_text:
            raise UserError(f"policy.constrained=true picks among listed actions; {self.env.free_text}")
        if self.credit.compares_trajectories and self.rollout.trajectories_per_task < 2:
            raise UserError(
                f"credit={self.credit.name} compares the trajectories of a task: rollout.group_size="
                f"{self.rollout.group_size} must be at least 2, and rollout.grouped={self.rollout.grouped} be true"
            )


def cell_overrides(config: Config, overrides: Sequence[str]) -> list[str]:
    """Return the overrides that are part of the run's identity: they name a study's cell."""
    return [o for o in overrides if in_identity(config, o.lstrip("+~").split("=")[0])]


def identity_of(config: Config) -> dict[str, Any]:
    """Return what the run id is a hash of: everything that changes the experiment, with the versions of the code."""
    parts = _of_evaluation(config) if config.is_evaluation else identity(config)
    versioned = {name: value for name in parts if isinstance(value := vars(config)[name], Settings)}
    versions = {name: value.method_version for name, value in versioned.items() if value.method_version is not None}
    return parts | {"method_versions": versions | {"run": METHOD_VERSION}}


def _of_evaluation(config: Config) -> dict[str, Any]:
    """Return what changes an evaluation: nothing that belongs to updates, and no training seed.

    A policy with a warm start depends on the training tasks that this was fitted to.
    """
    parts = {name: part for name, part in identity(config).items() if name not in OF_UPDATES}
    parts["evaluation"] = {name: value for name, value in parts["evaluation"].items() if name != "every"}
    if config.policy.warm_start_settings is None or config.run is not None:
        return parts
    return parts | {"rollout": {"train_tasks": config.rollout.train_tasks}}


def versions_today(identity: dict[str, Any]) -> dict[str, int | None]:
    """Return the method versions that the parts of an identity have in this bepo.

    None stands for a part that it does not have any more.
    """
    found: dict[str, int | None] = {"run": METHOD_VERSION, "agent": Agent.method_version}
    for part, plugins in PLUGINS.items():
        known = plugins().get(identity.get(part, {}).get("name"))
        found[part] = known.method_version if known else None
    return found


def with_neutral_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored config, or identity, with the neutral fields that it lacks at their defaults."""
    filled = _filled(config, neutral_defaults(Config))
    for part, plugins in PLUGINS.items():
        own = config.get(part, {})
        if kind := plugins().get(own.get("name", "")):
            filled[part] = _filled(own, neutral_defaults(kind))
    return filled


def _filled(own: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: _filled(own.get(name, {}), part) for name, part in defaults.items() if isinstance(part, dict)}
    return {**defaults, **own, **inner}
