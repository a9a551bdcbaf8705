"""Losses on response tokens.

Shapes: b transitions with at most r response tokens each. ``mask`` is True for response tokens and False for padding;
results are 0 where it is False.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Grid = Float[Tensor, "b r"]


def clipped_policy_loss(
    logprob: Grid,
    old_logprob: Grid,
    advantage: Grid,
    mask: Bool[Tensor, "b r"],
    clip_eps: float,
    dual_clip: float | None = None,
    ratio_level: Literal["token", "action"] = "token",
) -> tuple[Grid, dict[str, Tensor]]:
    """Return PPO's clipped surrogate of each token, negated, and statistics (Schulman et al., 2017, Eq. 7).

    The loss is max(-A r, -A clip(r, 1 - clip_eps, 1 + clip_eps)) with the importance ratio r = exp(logprob -
    old_logprob). With ``ratio_level="action"`` all tokens of a response share the geometric mean of their ratios (GSPO:
    Zheng et al., 2025, Eq. 7). With ``dual_clip`` c, the loss of a negative advantage is at most -A c (Ye et al., 2020,
    Eq. 5).

    The statistics are ``clip_fraction``, the number of clipped tokens, and ``ppo_kl``, the sum over tokens of the
    estimate k1 of KL(old || new); both are sums, which the caller divides by the number of tokens. ``ratio_error`` is
    the largest abs(r - 1).
    """
    log_ratio = (logprob - old_logprob).clamp(-20, 20)
    if ratio_level == "action":
        length = mask.sum(1, keepdim=True).clamp(min=1)
        log_ratio = ((log_ratio * mask).sum(1, keepdim=True) / length).expand_as(log_ratio)
    ratio = log_ratio.exp()
    unclipped, clipped = -advantage * ratio, -advantage * ratio.clamp(1 - clip_eps, 1 + clip_eps)
    loss = torch.maximum(unclipped, clipped)
    if dual_clip is not None:
        loss = torch.where(advantage < 0, torch.minimum(loss, -advantage * dual_clip), loss)
    stats = {
        "clip_fraction": ((clipped > unclipped) & mask).sum(),
        "ppo_kl": (-log_ratio * mask).sum(),
        "ratio_error": ((ratio - 1).abs() * mask).max(),
    }
    return loss * mask, stats


def low_var_kl(logprob: Grid, reference_logprob: Grid, mask: Bool[Tensor, "b r"]) -> Grid:
    """Return the estimate k3 of KL(policy || reference) of each token, which is never negative (Schulman, 2020).

    It is exp(d) - d - 1 with d = reference_logprob - logprob, clamped to at most 10 as in verl.
    """
    log_ratio = (reference_logprob - logprob).clamp(-20, 20)
    return (log_ratio.exp() - log_ratio - 1).clamp(-10, 10) * mask
