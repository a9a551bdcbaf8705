"""GSPO: one importance ratio for each response.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Aggregation, Loss, clamped_log_ratio, register, response_mean
from bepo.losses._surrogate import clipped_surrogate, statistics

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class GSPO(Loss):
    """max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high)), s = geometric mean of a response's importance ratios.

    Every token has the value s, and a gradient of s times that of its own log-probability (GSPO-token), so that tokens
    may have different advantages. The default bounds are GSPO's. ARLArena's for agents are 0.003 and 0.004 on ALFWorld
    and Sokoban, 0.03 and 0.04 on WebShop: ``loss=gspo_agents``.
    """

    name: Literal["gspo"] = "gspo"
    aggregation: Aggregation = "sequence_mean"
    clip_low: float = setting(0.0003, at_least=0)
    """The ratio is clipped to at least 1 - clip_low."""
    clip_high: float = setting(0.0004, at_least=0)
    """The ratio is clipped to at most 1 + clip_high."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Zheng et al., 2025, GSPO, Eq. 5 and 7"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated surrogate of each token."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        of_response = response_mean(log_ratio.detach(), mask)
        ratio = (logprob - logprob.detach() + of_response).clamp(max=10).exp()
        loss, clipped = clipped_surrogate(ratio, advantage, self.clip_low, self.clip_high)
        return loss * mask, statistics(log_ratio, clipped, mask)
