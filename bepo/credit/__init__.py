"""Credit estimators. Each file of this folder registers one; a new file is a new choice of ``credit``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, TypedDict

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.batch_checks import OF_TRANSITIONS
from bepo.core.errors import UserError, briefly, no_exit
from bepo.core.graph import RolloutGraph
from bepo.core.numbers import plain_number
from bepo.core.registry import Plugin, Registry
from bepo.core.tokens import Tokens

_GUARDED = (*OF_TRANSITIONS, "task_score", "state_group", "broken")


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

        Raises ``UserError`` as ``checked`` does.
        """
        checked = self.checked(len(response_length), int(response_length.sum()))
        if checked.token_advantage is None:
            return np.repeat(checked.advantage, response_length)
        return checked.token_advantage

    def numbers(self) -> dict[str, int | float]:
        """Return the metrics as Python numbers. Raises ``UserError`` for a metric that is not a real number."""
        numbers = {}
        for name, value in self.metrics.items():
            try:
                numbers[name] = plain_number(value)
            except ValueError:
                raise UserError(f"the estimator's metrics[{name!r}] is {briefly(value)}, must be a number") from None
        return numbers

    def checked(self, n: int, n_tokens: int | None = None) -> Credit:
        """Return the same credit with float64 arrays of its own and Python numbers.

        Raises ``UserError`` if an output is not an array of real numbers or has the wrong shape, if the name of a term
        or metric is not a text or is taken, or if a metric is not a real number.
        """
        if not isinstance(self.terms, dict) or not isinstance(self.metrics, dict):
            raise UserError("the estimator's terms and metrics must be dictionaries")
        if wrong := [name for name in (*self.terms, *self.metrics) if not isinstance(name, str)]:
            raise UserError(f"the estimator's terms and metrics have the name {wrong[0]!r}, must be a text")
        if "advantage" in self.terms:
            raise UserError("the estimator's terms['advantage'] has the name of the advantage; rename it")
        if self.graph is not None and len(self.graph.batch) != n:
            raise UserError(f"the estimator's graph has {len(self.graph.batch)} transitions, must have {n}")
        of_tokens = {name: getattr(self, name) for name in ("token_advantage", "token_return")}
        return replace(
            self,
            advantage=_floats("advantage", self.advantage, n),
            terms={name: _floats(f"terms[{name!r}]", values, n) for name, values in self.terms.items()},
            metrics=self.numbers(),
            **{name: None if x is None else _floats(name, x, n_tokens) for name, x in of_tokens.items()},
        )


def _floats(name: str, values: object, size: int | None) -> Float[np.ndarray, " n"]:
    """Return real numbers as a float64 array of its own. Raises ``UserError`` for anything else."""
    masked = isinstance(values, np.ma.MaskedArray)
    if masked or not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        kind = f"{'masked ' * masked}{values.dtype} array" if isinstance(values, np.ndarray) else type(values).__name__
        raise UserError(
            f"the estimator's {name} is a {kind}, must be a numpy array of numbers, real and without a mask"
        )
    if values.shape != ((len(values) if size is None and values.ndim else size),):
        raise UserError(f"the estimator's {name} has shape {values.shape}, must be ({size},)")
    return np.array(values, np.float64)


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
    privileged: ClassVar[bool] = False
    """Whether it sees what an agent cannot, such as the distance to the goal: a reference, not a method."""
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

    def without_effect(self) -> dict[str, str]:
        """Return the settings that change no advantage beside the others, each with the reason.

        A sweep says which of its cells train the same because of them.
        """
        return {}

    def __call__(self, batch: RolloutBatch) -> Credit:
        """Return the credit of each transition. Code outside of estimators calls ``credit_of``."""
        raise NotImplementedError

    def credit_of(self, batch: RolloutBatch) -> Credit:
        """Return the checked credit of each transition. The estimator gets a copy of the batch with read-only arrays.

        Raises ``UserError`` if it writes to the batch, or if it returns something else than ``Credit.checked`` accepts.
        """
        try:
            with no_exit(f"credit={self.name}: it"):
                credit = self(guarded(batch))
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise UserError(
                f"credit={self.name}: it changes the rollouts ({error}); copy an array to change it"
            ) from error
        if not isinstance(credit, Credit):
            raise UserError(f"credit={self.name}: must return bepo.credit.Credit, not {type(credit).__name__}")
        states = (credit.graph.batch if credit.graph else batch).n_states
        if credit.gate is not None and np.shape(credit.gate) != (states,):
            raise UserError(f"the estimator's gate has shape {np.shape(credit.gate)}, must be ({states},)")
        return credit.checked(len(batch), None if batch.tokens is None else len(batch.tokens.logprob))


estimators = Registry[Estimator](__name__, "credit", "credit estimator")
register = estimators.register
make = estimators.make


def guarded(batch: RolloutBatch) -> RolloutBatch:
    """Return a copy of a batch with read-only arrays.

    A view would not do: ``np.add.at`` and torch write to read-only arrays.
    """
    arrays = {name: np.array(vars(batch)[name]) for name in _GUARDED}
    extras = {name: np.array(values) for name, values in batch.extras.items()}
    tokens = batch.tokens and Tokens(**{f.name: np.array(vars(batch.tokens)[f.name]) for f in fields(Tokens)})
    for array in (*arrays.values(), *extras.values(), *(vars(tokens).values() if tokens else ())):
        array.flags.writeable = False
    texts = {name: list(vars(batch)[name]) for name in ("task", "state_key", "action_key")}
    return replace(batch, **arrays, **texts, extras=extras, tokens=tokens)
