"""Credit estimators: each file of this folder registers one; a new file is a new choice of ``credit``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, TypedDict

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

        Raises ``UserError`` for what an estimator returned that is no array of numbers, or has more or fewer of them
        than the batch has places, and for metrics that are no numbers.
        """
        self._check(len(response_length), int(response_length.sum()))
        return np.repeat(self.advantage, response_length) if self.token_advantage is None else self.token_advantage

    def numbers(self) -> dict[str, Any]:
        """Return the metrics as plain numbers: numpy's, and arrays of one number, are none that JSON knows."""
        return {name: value.item() if isinstance(value, _OF_NUMPY) else value for name, value in self.metrics.items()}

    def _check(self, n: int, n_tokens: int) -> None:
        if not isinstance(self.terms, dict) or not isinstance(self.metrics, dict):
            raise UserError("the estimator's terms and metrics must be dictionaries")
        _check_array("advantage", self.advantage, n)
        for name, values in self.terms.items():
            _check_array(f"terms[{name!r}]", values, n)
        for name in ("token_advantage", "token_return"):
            if getattr(self, name) is not None:
                _check_array(name, getattr(self, name), n_tokens)
        for name, number in self.metrics.items():
            if isinstance(number, _OF_NUMPY) and number.size == 1 and number.dtype.kind in "biuf":
                continue
            if not isinstance(number, Real):
                raise UserError(f"the estimator's metrics[{name!r}] is {number!r}, must be a number")


_OF_NUMPY = (np.generic, np.ndarray)


def _check_array(name: str, values: object, size: int) -> None:
    if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, np.number):
        kind = f"{values.dtype} array" if isinstance(values, np.ndarray) else type(values).__name__
        raise UserError(f"the estimator's {name} is a {kind}, must be a numpy array of numbers")
    if values.shape != (size,):
        raise UserError(f"the estimator's {name} has shape {values.shape}, must be ({size},)")


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

    @classmethod
    def check_class(cls) -> None:
        """Raise ``UserError`` for wrong traits, a version that is none, and a colour that no picture can have."""
        wanted = Traits.__annotations__
        if not isinstance(cls.traits, dict) or cls.traits.keys() != wanted.keys():
            raise UserError(f"traits={cls.traits!r}: must be a dictionary of {', '.join(wanted)}")
        if type(cls.method_version) is not int or cls.method_version < 1:
            raise UserError(f"method_version={cls.method_version!r}: must be a whole number from 1 on")
        if not isinstance(cls.colour, str) or not re.fullmatch("(#[0-9a-fA-F]{6})?", cls.colour):
            raise UserError(f"colour={cls.colour!r}: must be #RRGGBB, or empty")

    def __call__(self, batch: RolloutBatch) -> Credit:
        """Return the credit of each transition."""
        raise NotImplementedError


estimators = Registry[Estimator](__name__, "credit", "credit estimator")
register = estimators.register
make = estimators.make
