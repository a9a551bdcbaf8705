"""Hydra learns here what a config may be made of."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore

from bepo.credit import estimators
from bepo.envs import environments
from bepo.losses import losses
from bepo.policies import policies
from bepo.runs.config import Config
from bepo.training.backend import backends


def register_configs() -> None:
    """Hand the schema and every plug-in's dataclass to Hydra, so that a new file is a new choice."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Config, replace=True)
    groups = {"env": environments, "policy": policies, "credit": estimators, "loss": losses, "backend": backends}
    for group, plugins in groups.items():
        for name, cls in plugins().items():
            store.store(group=group, name=name, node=cls, replace=True)
