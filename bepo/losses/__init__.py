"""Policy losses. Each file of this folder registers one; a new file is a new choice of ``loss`` on every backend.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.errors import UserError, briefly
from bepo.core.registry import Plugin, Registry
from bepo.core.settings import setting

if TYPE_CHECKING:
    from torch import Tensor

_TAKEN = (
    *("policy_loss", "entropy", "kl", "grad_norm", "value_loss", "critic_grad_norm", "first_ratio_error"),
    *("optimiser_steps", "steps", "tokens", "denominator"),
)
"""Numbers of an update that backends sum or log beside the statistics of a loss."""
Aggregation = Literal["token_mean", "sequence_mean", "constant_length"]


@dataclass
class Loss(Plugin):
    """The base class of policy losses. An update minimises a loss together with entropy bonus and KL loss."""

    aggregation: Aggregation = "token_mean"
    """How token losses, entropy bonus and KL loss of a minibatch become one number.
    ``token_mean``: the mean over all response tokens; a response has a weight proportional to its length.
    ``sequence_mean``: the mean over responses of the mean over their tokens (GSPO, Eq. 5); all weights are equal.
    ``constant_length``: the sum over tokens, divided by the number of responses and by ``length`` (Dr. GRPO)."""
    length: int = setting(512, at_least=1, neutral=True)
    """Number of tokens that ``aggregation=constant_length`` divides by; usually ``policy.max_response_length``."""
    sequence_mask: float | None = setting(None, at_least=0, at_most=1, neutral=True)
    """Responses with a negative advantage count as 0 if the geometric mean of their importance ratios is below
    1 - sequence_mask (ARLArena; RECONSTRUCTION: the threshold is not published). null: no mask."""

    group = "loss"
    method_version: ClassVar[int]
    citation: ClassVar[str]
    """The paper and equation that define the loss."""

    def token_loss(
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

    def __call__(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return ``token_loss`` with 0 for the responses that ``sequence_mask`` masks.

        ``masked_fraction`` counts their tokens. They still count in the denominator. Raises ``UserError`` if the losses
        are not a tensor of real numbers with the shape of ``mask``, or if a statistic is not one number or has the name
        of one of bepo's.
        """
        # Copies, because a loss that changes its arguments would change what follows it.
        loss, stats = self.token_loss(logprob.clone(), old_logprob.clone(), advantage.clone(), mask.clone())
        self._check(loss, stats, mask)
        if self.sequence_mask is None:
            return loss, stats
        ratio = response_mean(clamped_log_ratio(logprob, old_logprob).detach(), mask).exp()
        masked = (response_mean(advantage, mask) < 0) & (ratio < 1 - self.sequence_mask)
        return loss * ~masked, stats | {"masked_fraction": (masked & mask).sum()}

    def _check(self, loss: Tensor, stats: dict[str, Tensor], mask: Tensor) -> None:
        shape = getattr(loss, "shape", None)
        if shape != mask.shape or not loss.is_floating_point():
            given = f"a {loss.dtype} tensor of shape {tuple(shape)}" if shape is not None else type(loss).__name__
            wanted = f"a tensor of real numbers of shape {tuple(mask.shape)}"
            raise UserError(f"loss={self.name}: the losses of tokens are {given}, must be {wanted}")
        self.refuse_names(stats, _TAKEN)
        for name, total in stats.items():
            if getattr(total, "shape", None) != () or total.is_complex():
                raise UserError(
                    f"loss={self.name}: the statistic {name!r} is {briefly(total)}, must be a tensor of one number"
                )

    def reduce(self, token_loss: Float[Tensor, "b r"], mask: Bool[Tensor, "b r"]) -> Float[Tensor, ""]:
        """Return the sum of the token losses over responses; the losses are 0 where ``mask`` is False.

        A minibatch is processed in parts: the sum over the parts is divided by ``denominator`` of the whole minibatch.
        """
        if self.aggregation == "sequence_mean":
            return (token_loss.sum(1) / mask.sum(1).clamp(min=1)).sum()
        return token_loss.sum()

    def denominator(self, n_responses: int, n_tokens: int) -> int:
        """Return the divisor of the sum over a minibatch of these sizes."""
        if self.aggregation == "token_mean":
            return n_tokens
        return n_responses * (self.length if self.aggregation == "constant_length" else 1)


def clamped_log_ratio(logprob: Float[Tensor, "b r"], old_logprob: Float[Tensor, "b r"]) -> Float[Tensor, "b r"]:
    """Return logprob - old_logprob, clamped to [-20, 20] as in verl."""
    return (logprob - old_logprob).clamp(-20, 20)


def response_mean(x: Float[Tensor, "b r"], mask: Bool[Tensor, "b r"]) -> Float[Tensor, "b r"]:
    """Return for each token the mean of ``x`` over its response's tokens; 0 for a response without tokens."""
    length = mask.sum(1, keepdim=True).clamp(min=1)
    return ((x * mask).sum(1, keepdim=True) / length).expand_as(x)


losses = Registry[Loss](__name__, "loss", "loss")
register = losses.register
