"""Credit estimators. Each file of this folder registers one; a new file is a new choice of ``credit``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, TypedDict

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.graph import RolloutGraph
from bepo.core.registry import Plugin, Registry


@dataclass
class Credit:
    """The output of an estimator for N transitions with R response tokens in all."""

    advantage: Float[np.ndarray, " N"]
    terms: dict[str, Float[np.ndarray, " N"]] = field(default_factory=dict)  # parts of the advantage, for diagnosis
    metrics: dict[str, float] = field(default_factory=dict)  # logged as credit/<name>
    token_advantage: Float[np.ndarray, " R"] | None = None  # if the tokens of a transition differ
    token_return: Float[np.ndarray, " R"] | None = None  # the critic's target
    graph: RolloutGraph | None = None  # what the audit counts; None: the graph of the batch
    gate: Float[np.ndarray, " S"] | None = None  # of gated estimators, for the audit

    def of_tokens(self, response_length: Int[np.ndarray, " N"]) -> Float[np.ndarray, " R"]:
        """Return the advantage of each response token: ``token_advantage``, or its transition's advantage.

        Raises ``UserError`` if an output is not an array of numbers, has the wrong shape, or a metric is not a number.
        """
        self._check(len(response_length), int(response_length.sum()))
        return np.repeat(self.advantage, response_length) if self.token_advantage is None else self.token_advantage

    def numbers(self) -> dict[str, Any]:
        """Return the metrics as Python numbers: JSON cannot hold numpy scalars and arrays."""
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
    """What distinguishes methods in the paper's table of estimators."""

    needs: str  # what it reads beside rewards
    step_credit: str
    temporal: str
    mixing: str


class Estimator(Plugin):
    """The base class of estimators: a dataclass of hyper-parameters; calling it maps a batch to advantages.

    Groups must not influence each other, unless ``mixes_groups`` says so. An estimator must not change the batch.
    """

    group = "credit"
    method_version: ClassVar[int]
    citation: ClassVar[str]
    """The paper, and the equation or section, that defines the method."""
    reconstruction: ClassVar[bool] = False
    """Whether it was rebuilt from a description, because no public code does this."""
    traits: ClassVar[Traits]
    needs_critic: ClassVar[bool] = False
    """Whether it reads ``batch.tokens.value``, the values of the trainer's critic."""
    needs_actions: ClassVar[bool] = False
    """Whether it compares actions, and refuses rollouts without them."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """Optional columns of the batch that it reads (``RolloutBatch.extras``)."""
    compares_trajectories: ClassVar[bool] = False
    """Whether it learns only from differences between the trajectories of a task, and so needs at least two of them."""
    upper_bound: ClassVar[bool] = False
    """Whether it is an upper bound with privileged information, not a method."""
    label: ClassVar[str] = ""
    """Name in tables and figures; empty: ``name``."""
    colour: ClassVar[str] = ""
    """Colour ``#RRGGBB`` in figures; empty: a free colour is chosen."""

    @classmethod
    def check_class(cls) -> None:
        """Raise ``UserError`` for wrong traits, a wrong method version or a wrong colour."""
        wanted = Traits.__annotations__
        if not isinstance(cls.traits, dict) or cls.traits.keys() != wanted.keys():
            raise UserError(f"traits={cls.traits!r}: must be a dictionary of {', '.join(wanted)}")
        if type(cls.method_version) is not int or cls.method_version < 1:
            raise UserError(f"method_version={cls.method_version!r}: must be a whole number, at least 1")
        if not isinstance(cls.colour, str) or not re.fullmatch("(#[0-9a-fA-F]{6})?", cls.colour):
            raise UserError(f"colour={cls.colour!r}: must be #RRGGBB, or empty")

    @property
    def mixes_groups(self) -> bool:
        """Whether the groups of an update influence each other, with these settings."""
        return False

    @property
    def n_continuations(self) -> int:
        """How many continuations each state gets for the column ``continuation`` (``bepo.rollouts.continuations``)."""
        return 0

    @property
    def solves(self) -> bool:
        """Whether it solves a linear system of all groups, so that other groups change the rounding of a group."""
        return False

    def __call__(self, batch: RolloutBatch) -> Credit:
        """Return the credit of each transition."""
        raise NotImplementedError


estimators = Registry[Estimator](__name__, "credit", "credit estimator")
register = estimators.register
make = estimators.make
