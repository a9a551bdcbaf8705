"""GMPO: the geometric mean of importance ratios that are clipped token by token.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Aggregation, Loss, clamped_log_ratio, register, response_mean
from bepo.losses._surrogate import statistics

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class GMPO(Loss):
    """-A exp(mean over a response's tokens of the clipped log ratio).

    The log ratio of a token is at most ``clip_high`` where its advantage is positive, and at least -``clip_low`` where
    it is negative. The bounds are for the logarithm, as in the paper and verl.
    """

    name: Literal["gmpo"] = "gmpo"
    aggregation: Aggregation = "sequence_mean"
    clip_low: float = setting(0.4, at_least=0)
    """Log ratios of tokens with a negative advantage are at least -clip_low."""
    clip_high: float = setting(0.4, at_least=0)
    """Log ratios of tokens with a positive advantage are at most clip_high."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Zhao et al., 2025, Geometric-Mean Policy Optimization"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return for each token its negated advantage times the response's ratio."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        too_high, too_low = log_ratio > self.clip_high, log_ratio < -self.clip_low
        clipped = (too_high & (advantage > 0)) | (too_low & (advantage < 0))
        bounded = log_ratio.clamp(-self.clip_low, self.clip_high).where(clipped, log_ratio)
        ratio = response_mean(bounded, mask).exp()
        return -advantage * ratio * mask, statistics(log_ratio, clipped, mask)
