"""Dr. GRPO's loss: the clipped surrogate, summed over tokens and divided by a constant length.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Aggregation, Loss, clamped_log_ratio, register
from bepo.losses._surrogate import clipped_surrogate, statistics

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class DrGRPO(Loss):
    """max(-A r, -A clip(r, 1 - clip_eps, 1 + clip_eps)), summed over tokens, divided by responses x ``length``.

    Every token has the same weight, whatever the length of its response. The division by the number of responses keeps
    the scale independent of the minibatch's size; some of verl's modes sum instead. Dr. GRPO also has no standard
    deviation in the advantage and no KL loss: ``credit=dr_grpo``.
    """

    name: Literal["dr_grpo"] = "dr_grpo"
    aggregation: Aggregation = "constant_length"
    clip_eps: float = setting(0.2, at_least=0)
    """Importance ratios are clipped to [1 - clip_eps, 1 + clip_eps]."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Liu et al., 2025, Understanding R1-Zero-Like Training"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated surrogate of each token."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        loss, clipped = clipped_surrogate(log_ratio.exp(), advantage, self.clip_eps, self.clip_eps)
        return loss * mask, statistics(log_ratio, clipped, mask)
