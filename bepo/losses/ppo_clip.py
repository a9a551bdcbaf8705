"""PPO's clipped surrogate.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Loss, clamped_log_ratio, register, response_mean
from bepo.losses._surrogate import clipped_surrogate, statistics

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class PPOClip(Loss):
    """max(-A r, -A clip(r, 1 - clip_eps, 1 + clip_eps)) with the importance ratio r = exp(logprob - old_logprob).

    ``clip_eps`` is from the paper (supplement, Table "Common final Gated-BEPO and actor-optimization hyperparameters").
    The paper does not give ``dual_clip``; its default is verl-agent's.
    """

    name: Literal["ppo_clip"] = "ppo_clip"
    ratio: Literal["token", "action"] = "token"
    """``token``: each token has its own importance ratio. ``action``: all tokens of a response share the geometric mean
    of their ratios (GAGPO; GSPO: Zheng et al., 2025, Eq. 7)."""
    clip_eps: float = setting(0.2, at_least=0)
    """Importance ratios are clipped to [1 - clip_eps, 1 + clip_eps]."""
    dual_clip: float | None = setting(3.0, above=1)
    """The loss at a negative advantage A is at most dual_clip |A| (Ye et al., 2020, Eq. 5); null: no limit."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Schulman et al., 2017, Eq. 7"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated surrogate of each token."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        if self.ratio == "action":
            log_ratio = response_mean(log_ratio, mask)
        loss, clipped = clipped_surrogate(log_ratio.exp(), advantage, self.clip_eps, self.clip_eps)
        if self.dual_clip is not None:
            loss = loss.minimum(-advantage * self.dual_clip).where(advantage < 0, loss)
        return loss * mask, statistics(log_ratio, clipped, mask)
