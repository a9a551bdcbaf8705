"""The KL loss on response tokens, of b transitions with at most r tokens each."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

Grid = Float[Tensor, "b r"]


def low_var_kl(logprob: Grid, reference_logprob: Grid, mask: Bool[Tensor, "b r"]) -> Grid:
    """Return the estimate k3 of KL(policy || reference) for each token, which is never negative (Schulman, 2020).

    It is exp(d) - d - 1 with d = reference_logprob - logprob, clamped to at most 10 as in verl; 0 where ``mask`` is
    False.
    """
    log_ratio = (reference_logprob - logprob).clamp(-20, 20)
    return (log_ratio.exp() - log_ratio - 1).clamp(-10, 10) * mask
