"""DPPO: a mask by the change of a token's probability in place of the clip of its ratio.

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
class DPPO(Loss):
    """-A sg(min(r, max_ratio)) logprob with r = exp(logprob - old_logprob), 0 where the probability moved too far.

    This is the variant Binary-TV. A token has no loss if its probability rose by more than ``clip_high`` and its
    advantage is positive, or fell by more than ``clip_low`` and its advantage is not. sg passes no gradient on.
    """

    name: Literal["dppo"] = "dppo"
    clip_low: float = setting(0.2, at_least=0)
    """Largest fall of a probability. The default is that of verl's ``clip_ratio``."""
    clip_high: float = setting(0.2, at_least=0)
    """Largest rise of a probability. The default is that of verl's ``clip_ratio``."""
    max_ratio: float = setting(20.0, at_least=1)
    """Weights of tokens are at most max_ratio (verl)."""

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Qi et al., 2026, Rethinking the Trust Region in LLM RL, Binary-TV"

    def token_loss(
        self,
        logprob: Float[Tensor, "b r"],
        old_logprob: Float[Tensor, "b r"],
        advantage: Float[Tensor, "b r"],
        mask: Bool[Tensor, "b r"],
    ) -> tuple[Float[Tensor, "b r"], dict[str, Float[Tensor, ""]]]:
        """Return the negated weighted log-probability of each token, 0 where it is masked."""
        log_ratio = clamped_log_ratio(logprob, old_logprob)
        change = logprob.detach().exp() - old_logprob.exp()
        too_far = (change > self.clip_high).where(advantage > 0, change < -self.clip_low)
        weight = log_ratio.detach().exp().clamp(max=self.max_ratio) * ~too_far
        return -advantage * weight * logprob * mask, statistics(log_ratio, too_far, mask)
