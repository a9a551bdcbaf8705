"""DAPO's loss: the clipped surrogate with a higher upper bound.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Loss, clamped_log_ratio, register
from bepo.losses._surrogate import clipped_surrogate, statistics

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class DAPO(Loss):
    """max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)) with r = exp(logprob - old_logprob), without a dual clip.

    DAPO also samples further groups until enough of them have both outcomes, and has no KL loss: ``credit=dapo``.
    """

    name: Literal["dapo"] = "dapo"
    clip_low: float = setting(0.2, at_least=0)
    """Importance ratios are clipped to at least 1 - clip_low."""
    clip_high: float = setting(0.28, at_least=0)
    """Importance ratios are clipped to at most 1 + clip_high."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Yu et al., 2025, DAPO, clip-higher"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated surrogate of each token."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        loss, clipped = clipped_surrogate(log_ratio.exp(), advantage, self.clip_low, self.clip_high)
        return loss * mask, statistics(log_ratio, clipped, mask)
