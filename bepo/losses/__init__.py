"""Policy losses. Each file of this folder registers one; a new file is a new choice of ``loss`` on every backend.

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
    """The base class of policy losses. An update minimises a loss together with entropy bonus and KL loss."""

    aggregation: Literal["token_mean", "sequence_mean"] = "token_mean"
    """How token losses, entropy bonus and KL loss of a minibatch become one number.
    ``token_mean``: the mean over all response tokens; a response has a weight proportional to its length.
    ``sequence_mean``: the mean over responses of the mean over their tokens (GSPO, Eq. 5); all weights are equal."""

    group = "loss"
    method_version: ClassVar[int]
    citation: ClassVar[str]
    """The paper and equation that define the loss."""

    def __call__(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the loss of each token, and statistics of the tokens.

        ``logprob`` is the policy's log-probability, with gradient; ``old_logprob`` is the one at rollout time. ``mask``
        is True for response tokens and False for padding, where the loss is 0. Each statistic is a sum over response
        tokens; the backends divide it by the number of tokens, and log it as ``train/<name>``.
        """
        raise NotImplementedError

    def reduce(self, token_loss: Float[Tensor, "b r"], mask: Bool[Tensor, "b r"]) -> Float[Tensor, ""]:
        """Return the sum of the token losses over responses; the losses are 0 where ``mask`` is False.

        A minibatch is processed in parts: the sum over the parts is divided by ``denominator`` of the whole minibatch.
        """
        if self.aggregation == "token_mean":
            return token_loss.sum()
        return (token_loss.sum(1) / mask.sum(1).clamp(min=1)).sum()

    def denominator(self, n_responses: int, n_tokens: int) -> int:
        """Return the divisor of the sum over a minibatch of these sizes."""
        return n_tokens if self.aggregation == "token_mean" else n_responses


losses = Registry[Loss](__name__, "loss", "loss")
register = losses.register
