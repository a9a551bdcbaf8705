"""SAPO: a sigmoid gate in place of the clip.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Bool, Float

from bepo.core.settings import setting
from bepo.losses import Aggregation, Loss, clamped_log_ratio, register

if TYPE_CHECKING:
    from torch import Tensor


@register
@dataclass
class SAPO(Loss):
    """-A (4 / tau) sigmoid(tau (r - 1)) with r = exp(logprob - old_logprob).

    The gradient of a token falls smoothly with the distance of its ratio from 1. With tau -> 0 the loss is -A r up to a
    constant.
    """

    name: Literal["sapo"] = "sapo"
    aggregation: Aggregation = "sequence_mean"
    tau_positive: float = setting(1.0, above=0)
    """Temperature tau of tokens with a positive advantage."""
    tau_negative: float = setting(1.05, above=0)
    """Temperature tau of the other tokens."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Gao et al., 2025, Soft Adaptive Policy Optimization"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated gated advantage of each token. Its statistic ``ppo_kl`` is that of ``ppo_clip``."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        positive, negative = advantage.new_tensor(self.tau_positive), advantage.new_tensor(self.tau_negative)
        tau = positive.where(advantage > 0, negative)
        gate = (tau * (log_ratio.exp() - 1)).sigmoid() * 4 / tau
        return -advantage * gate * mask, {"ppo_kl": (-log_ratio * mask).sum()}
