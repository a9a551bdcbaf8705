"""Policy losses: each file of this folder registers one; a new file is a new choice of ``loss``, on every backend.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.registry import Plugin, Registry

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Loss(Plugin):
    """What an update lowers, beside entropy bonus and KL loss. The field is one that every loss has."""

    aggregation: Literal["token_mean"] = "token_mean"
    """How the losses of tokens become one number, also those of entropy bonus and KL loss. token_mean: the mean over
    the response tokens of a minibatch, in which every token counts the same."""

    group = "loss"
    method_version: ClassVar[int]
    citation: ClassVar[str]
    """Where the loss is defined."""

    def __call__(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the loss of each token, and statistics of the tokens.

        ``logprob`` is that of the policy, which learns by its gradient, and ``old_logprob`` that at rollout time.
        ``mask`` is True for response tokens and False for padding, where the loss is 0. Each statistic is a sum over
        response tokens; the backends divide it by their number, and log it as ``train/<name>``.
        """
        raise NotImplementedError


losses = Registry[Loss](__name__, "loss", "loss")
register = losses.register
