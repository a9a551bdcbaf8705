"""Credit estimators: each file of this folder defines one, and defining it is all it takes.

An estimator is a dataclass whose fields are its hyper-parameters and whose call maps a ``RolloutGroup`` of N records
to a ``Credit``. It must not let groups influence each other.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from jaxtyping import Float

from bepo.errors import choose
from bepo.rollout import RolloutGroup


@dataclass
class Credit:
    """What an estimator says about N records."""

    advantage: Float[np.ndarray, "N"]
    terms: dict[str, Float[np.ndarray, "N"]] = field(default_factory=dict)  # its parts, for diagnosis
    metrics: dict[str, float] = field(default_factory=dict)  # logged as credit/<name>


class Estimator(Protocol):
    """``method_version`` is part of every run id: raise it when the numbers an estimator gives change."""

    name: str
    method_version: ClassVar[int]
    citation: ClassVar[str]
    reconstruction: ClassVar[bool]

    def __call__(self, group: RolloutGroup) -> Credit: ...


REGISTRY: dict[str, type[Estimator]] = {}


def register(cls: type) -> type:
    """Class decorator: make the estimator known under its ``name``."""
    REGISTRY[cls.name] = cls
    return cls


def estimators() -> dict[str, type[Estimator]]:
    """Every estimator by name; imports the files of this folder once."""
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(REGISTRY.items()))


def make(name: str, **hyperparameters: object) -> Callable[[RolloutGroup], Credit]:
    """The estimator ``name``; raises ``UserError`` naming the choices for an unknown one."""
    known = estimators()
    if name not in known:
        raise choose("credit estimator", name, known)
    return known[name](**hyperparameters)
