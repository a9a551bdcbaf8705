"""CISPO: log-probabilities weighted by clipped importance ratios.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Loss, clamped_log_ratio, register
from bepo.losses._surrogate import statistics

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class CISPO(Loss):
    """-A sg(clip(r, 1 - clip_low, 1 + clip_high)) logprob with r = exp(logprob - old_logprob).

    sg passes no gradient on. Clipping bounds the weight of a token, and no token loses its gradient.
    """

    name: Literal["cispo"] = "cispo"
    clip_low: float = setting(1.0, at_least=0)
    """Weights are at least 1 - clip_low. 1: without a lower bound, as in the paper's experiments."""
    clip_high: float = setting(0.2, at_least=0)
    """Weights are at most 1 + clip_high. The paper does not give its value; the default is verl's."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "MiniMax, 2025, MiniMax-M1, Eq. 4 and 5"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated weighted log-probability of each token."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        ratio = log_ratio.detach().exp()
        weight = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        return -advantage * weight * logprob * mask, statistics(log_ratio, weight != ratio, mask)
