"""Policies: each file of this folder may register presets that build a ``LanguageModel``."""

from __future__ import annotations

from typing import ClassVar, Protocol

from bepo import plugins
from bepo.agents import Agent
from bepo.envs import Environment


class PolicyConfig(Protocol):
    """A dataclass that says which language model to use."""

    name: str
    method_version: ClassVar[int]

    def build(self, env: Environment, agent: Agent, device: str):
        """The ``bepo.policies.language_model.LanguageModel``, before any warm start."""


REGISTRY: dict[str, type[PolicyConfig]] = {}


def register(cls: type) -> type:
    """Class decorator: make the policy known under its ``name``."""
    REGISTRY[cls.name] = cls
    return cls


def policies() -> dict[str, type[PolicyConfig]]:
    """Every policy by name; imports the files of this folder once."""
    return plugins.load(__name__, REGISTRY)
