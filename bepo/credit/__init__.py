"""Credit estimators: each file of this folder registers one; a new file is a new choice of ``credit``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypedDict

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.registry import Plugin, Registry


@dataclass
class Credit:
    """What an estimator says about N transitions with R response tokens in all."""

    advantage: Float[np.ndarray, " N"]
    terms: dict[str, Float[np.ndarray, " N"]] = field(default_factory=dict)  # its parts, for diagnosis
    metrics: dict[str, float] = field(default_factory=dict)  # logged as credit/<name>
    token_advantage: Float[np.ndarray, " R"] | None = None  # where the tokens of a transition differ
    token_return: Float[np.ndarray, " R"] | None = None  # what a critic is fitted to

    def of_tokens(self, response_length: Int[np.ndarray, " N"]) -> Float[np.ndarray, " R"]:
        """Return the advantage of each response token: its own, or that of its transition.

        Raises ``UserError`` where an estimator returned more or fewer advantages than the batch has places.
        """
        n_tokens = int(response_length.sum())
        for name, size in (
            ("advantage", len(response_length)),
            ("token_advantage", n_tokens),
            ("token_return", n_tokens),
        ):
            values = getattr(self, name)
            if values is not None and np.shape(values) != (size,):
                raise UserError(f"the estimator's {name} has shape {np.shape(values)}, must be ({size},)")
        return np.repeat(self.advantage, response_length) if self.token_advantage is None else self.token_advantage


class Traits(TypedDict):
    """What tells methods apart (the paper's table of estimators), and what one reads beside rewards."""

    needs: str
    step_credit: str
    temporal: str
    mixing: str


class Estimator(Plugin):
    """A dataclass whose fields are its hyper-parameters, and whose call maps a batch to advantages.

    Groups must not influence each other, and the batch must not be changed.
    """

    group = "credit"
    method_version: ClassVar[int]
    citation: ClassVar[str]
    """Where the method is defined."""
    reconstruction: ClassVar[bool] = False
    """Was it rebuilt from a description, for want of public code?"""
    traits: ClassVar[Traits]
    needs_critic: ClassVar[bool] = False
    """Does it read ``batch.tokens.value``, which the trainer's critic fills in?"""
    needs_expert_steps: ClassVar[bool] = False
    """Does it read ``batch.expert_steps``, which the environment's expert fills in?"""
    compares_trajectories: ClassVar[bool] = False
    """Is its only signal how the trajectories of a task differ, so that a task with one of them teaches nothing?"""
    control: ClassVar[bool] = False
    """Is it no method but a control, which knows more than an agent could?"""
    label: ClassVar[str] = ""
    """Its name in tables and figures; empty: its ``name``."""
    colour: ClassVar[str] = ""
    """Its colour in figures, ``#RRGGBB``; empty: one that no other method has is chosen."""

    def __call__(self, batch: RolloutBatch) -> Credit:
        """Return the credit of each transition."""
        raise NotImplementedError


estimators = Registry[Estimator](__name__, "credit", "credit estimator")
register = estimators.register
make = estimators.make
