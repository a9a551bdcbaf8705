"""Parts that several losses share: the clipped surrogate, and statistics.

Shapes: b transitions with at most r response tokens each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Bool, Float

if TYPE_CHECKING:
    from torch import Tensor


def clipped_surrogate(
    ratio: Float[Tensor, "b r"], advantage: Float[Tensor, "b r"], low: float, high: float
) -> tuple[Float[Tensor, "b r"], Bool[Tensor, "b r"]]:
    """Return max(-A r, -A clip(r, 1 - low, 1 + high)), and where the clipped term is the larger one."""
    unclipped, clipped = -advantage * ratio, -advantage * ratio.clamp(1 - low, 1 + high)
    return unclipped.maximum(clipped), clipped > unclipped


def statistics(
    log_ratio: Float[Tensor, "b r"], clipped: Bool[Tensor, "b r"], mask: Bool[Tensor, "b r"]
) -> dict[str, Float[Tensor, ""]]:
    """Return ``clip_fraction``, the number of clipped tokens, and ``ppo_kl``, the estimate k1 of KL(old || new)."""
    return {"clip_fraction": (clipped & mask).sum(), "ppo_kl": (-log_ratio * mask).sum()}
