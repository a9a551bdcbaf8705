"""Losses on response tokens. Shapes: b records, r response tokens; sums run over ``mask``."""

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
    clip: float,
    dual_clip: float | None = None,
    ratio_level: Literal["token", "action"] = "token",
) -> tuple[Grid, dict[str, Tensor]]:
    """PPO's clipped surrogate, negated, per token (Schulman et al., 2017, Eq. 7; dual clip: Ye et al., 2020, Eq. 5).

    ``ratio_level="action"`` gives all tokens of a response their
    geometric-mean ratio (Zheng et al., 2025, GSPO, Eq. 7). Also returns sums over the mask: clipped tokens and k1 KL.
    """
    log_ratio = (logprob - old_logprob).clamp(-20, 20)
    if ratio_level == "action":
        length = mask.sum(1, keepdim=True).clamp(min=1)
        log_ratio = ((log_ratio * mask).sum(1, keepdim=True) / length).expand_as(log_ratio)
    ratio = log_ratio.exp()
    plain, bounded = -advantage * ratio, -advantage * ratio.clamp(1 - clip, 1 + clip)
    loss = torch.maximum(plain, bounded)
    if dual_clip is not None:
        loss = torch.where(advantage < 0, torch.minimum(loss, -advantage * dual_clip), loss)
    stats = {
        "clip_fraction": ((bounded > plain) & mask).sum(),
        "ppo_kl": (-log_ratio * mask).sum(),
        "ratio_error": ((ratio - 1).abs() * mask).max(),
    }
    return loss * mask, stats


def low_var_kl(logprob: Grid, reference: Grid, mask: Bool[Tensor, "b r"]) -> Grid:
    """k3 estimate of KL(policy || reference) per token, >= 0 (Schulman, 2020), clamped to +-10 as in verl."""
    log_ratio = (reference - logprob).clamp(-20, 20)
    return (log_ratio.exp() - log_ratio - 1).clamp(-10, 10) * mask
