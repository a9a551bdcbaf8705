"""The config of a run: its schema, and the identity that the run ID is a hash of."""

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
from bepo.runs.health import Health
from bepo.store.files import folder_name
from bepo.store.tracking import Tracking
from bepo.training import Optimisation
from bepo.training.backends import backends

METHOD_VERSION = 2
"""Version of all code outside of plug-ins. Raise it when the same config gives other numbers."""
PLUGINS = {"env": environments, "credit": estimators, "loss": losses, "policy": policies, "backend": backends}
"""The parts of a config that are chosen by name, and their registries."""
TIERS = ("smoke", "laptop", "desktop", "paper")
"""The tiers, from the smallest to the largest."""
PAPER_TIERS = ("smoke", "laptop", "paper")
"""The tiers at which every study can run: they have a policy for every model of the paper."""
OF_UPDATES = ("credit", "loss", "training", "rollout", "seed")
"""The parts of a config that an evaluation does not use."""
_MISSING = "???"  # OmegaConf's mark of a required value


@dataclass
class Rollout(Settings):
    """The episodes of one update (paper, supplement, Table "Environment- and backbone-specific settings")."""

    tasks: int = setting(16, at_least=1, at_most=100_000)
    """Groups per update. Each group has its own task, unless `grouped` is false."""
    group_size: int = setting(8, at_least=1, at_most=100_000)
    """Trajectories per group (K)."""
    grouped: bool = True
    """Whether the trajectories of a group share one task. False: `tasks` x `group_size` different tasks with one
    trajectory each, for estimators that do not compare trajectories (PPO)."""
    mixed_groups: bool = setting(False, neutral=True)
    """Whether an update trains only on groups with at least one success and one failure (DAPO's dynamic sampling).
    Further tasks are drawn until `tasks` such groups are found. Statistics of rollouts count all episodes."""
    max_batches: int = setting(10, at_least=1, at_most=1000, neutral=True)
    """Number of batches of `tasks` groups that `mixed_groups` draws at most for one update. Then the update uses the
    groups found so far, or all groups of the last batch if no group was found."""
    train_tasks: int = setting(4096, at_least=1, at_most=1_000_000)
    """Size of the training set of tasks. Updates draw from it without replacement until it is used up."""
    temperature: float = setting(1.0, above=0)
    """Sampling temperature of training rollouts."""
    top_p: float = 1.0
    """Must be 1: training samples from the whole distribution."""
    top_k: int = -1
    """Must be -1: training samples from the whole distribution."""

    group = "rollout"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_p != 1 or self.top_k != -1:
            raise UserError(
                f"rollout.top_p={self.top_p}, rollout.top_k={self.top_k}: must be 1.0 and -1, because training samples "
                "from the whole distribution"
            )

    @property
    def tasks_per_update(self) -> int:
        """Number of different tasks of one update."""
        return self.tasks if self.grouped else self.tasks * self.group_size

    @property
    def trajectories_per_task(self) -> int:
        """Number of trajectories of each task: ``group_size``, or 1 if tasks are not grouped."""
        return self.group_size if self.grouped else 1

    @property
    def sampling(self) -> Sampling:
        """The sampling parameters of training rollouts."""
        return Sampling(self.temperature, self.top_p, self.top_k)


@dataclass
class Config(Settings):
    """The config of a run."""

    env: Any = _MISSING
    """The environment."""
    policy: Any = _MISSING
    """The language model that acts."""
    credit: Any = _MISSING
    """The estimator of advantages."""
    loss: Any = _MISSING
    """The policy loss."""
    backend: Any = _MISSING
    """The engine that samples responses and updates the policy."""
    agent: Agent = field(default_factory=Agent)
    """Prompts, and how actions are parsed from responses."""
    rollout: Rollout = field(default_factory=Rollout)
    """The episodes of one update."""
    training: Optimisation = field(default_factory=Optimisation)
    """The optimiser, and the terms of the loss beside the policy loss."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    """How success is measured."""
    updates: int = setting(150, at_least=0, at_most=1_000_000)
    """Number of updates. 0: only evaluate the policy (``python -m bepo.evaluate``)."""
    run: str | None = setting(None, neutral=True)
    """ID of a finished run whose policy is evaluated. Requires ``updates=0``."""
    seed: int = setting(0, at_least=0)
    """Training seed. It determines tasks, rollouts and minibatches."""
    tier: str = _MISSING
    """Name of the tier. Together with ``model`` it names the policy, ``conf/tier/<tier>/policy/<model>.yaml``."""
    model: Literal["small", "large", "qwen3", "vl", "closed"] = "small"
    """The model of the paper that the policy is or stands for. A closed model can only be served."""
    prompting: Prompting = setting(factory=Prompting, neutral=True)
    """How a served policy is prompted. A trained policy is always prompted directly."""
    health: Health = setting(factory=Health, identity=False)
    """When a run's metrics raise an alarm (``bepo diagnose``)."""
    tracking: Tracking = setting(factory=Tracking, identity=False)
    """Weights & Biases."""
    results: str = setting("results", identity=False)
    """The results folder: runs, studies, task sets and warm starts."""
    checkpoint_every: int = setting(10, at_least=1, identity=False)
    """Updates between checkpoints."""
    checkpoints: int = setting(2, at_least=0, identity=False)
    """Number of checkpoints that a run keeps. With 2 it can continue if the newest is damaged. 0: keep one, and remove
    it before the next is written if the disk is too full for both; a run that is killed then starts again."""
    keep: Literal["policy", "resume"] = setting("policy", identity=False)
    """What a finished run keeps. `policy`: its policy. `resume`: also the checkpoint that a longer run continues."""
    save_rollouts: int = setting(0, at_least=0, identity=False)
    """Keep the whole rollouts of every n-th update. 0: only a few megabytes of the first, the middle and the last."""
    plugins: str = setting("", identity=False)
    """Files, packages or modules with plug-ins of your own, separated by `:`. `BEPO_PLUGINS` does the same."""
    progress: bool = setting(True, identity=False)
    """Whether to show a progress bar on a terminal."""
    study: dict[str, Any] = setting(factory=dict, identity=False)
    """Metadata of the experiment file, such as its name and its question."""

    @property
    def is_evaluation(self) -> bool:
        """Whether the policy is only evaluated, not trained."""
        return self.updates == 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.results.strip():
            raise UserError(f"results={self.results}: must name a folder; . is the current folder")
        if self.results.startswith("~"):
            raise UserError(f"results={self.results}: ~ is the shell's word for the home; write the folder in full")
        if self.study:
            folder_name(self.study.get("name"), "study.name")
        if not all(isinstance(part, Settings) for part in (self.env, self.policy, self.credit)):
            return  # the schema, or a config with a missing part
        if self.run is not None and not self.is_evaluation:
            raise UserError(f"run={self.run}: needs updates=0; python -m bepo.evaluate evaluates the policy of a run")
        if self.policy.served and not self.is_evaluation:
            raise UserError(f"policy={self.policy.name}: cannot be trained; python -m bepo.evaluate evaluates it")
        if (
            self.policy.lora.rank
            and not self.is_evaluation
            and self.backend.name != "verl"
            and not self.policy.trains_adapters
        ):
            raise UserError(
                f"policy.lora.rank={self.policy.lora.rank}: adapters of policy={self.policy.name} need backend=verl"
            )
        if self.policy.served and self.policy.lora.rank:
            raise UserError(
                f"policy.lora.rank={self.policy.lora.rank}: policy={self.policy.name} serves whole checkpoints"
            )
        if self.prompting.method != "direct" and not self.policy.served:
            raise UserError(
                f"prompting.method={self.prompting.method}: needs a served model, not policy={self.policy.name}; "
                "choices: policy=served, policy=vllm"
            )
        if not self.policy.served:
            _ = self.evaluation.sampling  # refuses a temperature of 0
        if self.policy.constrained and self.env.free_text:
            raise UserError(f"policy.constrained=true: needs a list of allowed actions; {self.env.free_text}")
        self.policy.check_agent(self.agent)
        if self.credit.n_continuations and self.backend.name != "local":
            raise UserError(f"credit={self.credit.name}: needs continuations of episodes; choices: backend=local")
        if self.rollout.mixed_groups and self.rollout.trajectories_per_task < 2:
            raise UserError(
                f"rollout.mixed_groups=true: a group with a success and a failure needs rollout.group_size="
                f"{self.rollout.group_size} to be at least 2 and rollout.grouped={self.rollout.grouped} to be true"
            )
        if self.credit.compares_trajectories and self.rollout.trajectories_per_task < 2:
            raise UserError(
                f"credit={self.credit.name}: compares the trajectories of a task, so rollout.group_size="
                f"{self.rollout.group_size} must be at least 2 and rollout.grouped={self.rollout.grouped} must be true"
            )


def cell_overrides(config: Config, overrides: Sequence[str]) -> list[str]:
    """Return the overrides that the run ID depends on. They name a cell of a study."""
    return [o for o in overrides if in_identity(config, o.lstrip("+~").split("=")[0])]


def identity_of(config: Config) -> dict[str, Any]:
    """Return the content of the run ID: everything that changes the experiment, with the versions of the code."""
    parts = _of_evaluation(config) if config.is_evaluation else identity(config)
    versioned = {name: value for name in parts if isinstance(value := vars(config)[name], Settings)}
    versions = {name: value.method_version for name, value in versioned.items() if value.method_version is not None}
    return parts | {"method_versions": versions | {"run": METHOD_VERSION}}


def _of_evaluation(config: Config) -> dict[str, Any]:
    """Return the content of the run ID of an evaluation: without the settings of updates and the training seed.

    A policy with a warm start also depends on the number of training tasks, which the warm start is fitted to.
    """
    parts = {name: part for name, part in identity(config).items() if name not in OF_UPDATES}
    parts["evaluation"] = {name: value for name, value in parts["evaluation"].items() if name != "every"}
    if config.policy.warm_start_settings is None or config.run is not None:
        return parts
    return parts | {"rollout": {"train_tasks": config.rollout.train_tasks}}


def versions_today(identity: dict[str, Any]) -> dict[str, int | None]:
    """Return the current method versions of the parts of an identity; None for a part that no longer exists."""
    versions: dict[str, int | None] = {"run": METHOD_VERSION, "agent": Agent.method_version}
    for part, plugins in PLUGINS.items():
        known = plugins().get(identity.get(part, {}).get("name"))
        versions[part] = known.method_version if known else None
    return versions


def with_neutral_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored config or identity, and add missing neutral fields with their defaults."""
    filled = _filled(config, neutral_defaults(Config))
    for part, plugins in PLUGINS.items():
        given = config.get(part, {})
        if kind := plugins().get(given.get("name", "")):
            filled[part] = _filled(given, neutral_defaults(kind))
    return filled


def _filled(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    inner = {name: _filled(given.get(name, {}), part) for name, part in defaults.items() if isinstance(part, dict)}
    return {**defaults, **given, **inner}
