"""The local backend's losses, registered with verl. verl's workers import this file by its name.

Shapes: b transitions with at most r response tokens each, padded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss, register_policy_loss
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from bepo.training.critic import clipped_value_loss
from bepo.training.loss import clipped_policy_loss
from bepo.training.verl import repairs  # noqa: F401 (it takes effect when it is imported)


def _policy_loss(level: Literal["token", "action"]) -> Callable[..., tuple[Tensor, dict[str, Any]]]:
    """Return ``clipped_policy_loss`` with this level of importance ratios, in the form that verl registers."""

    def loss(old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config, rollout_is_weights=None):
        """Return the loss averaged over the minibatch's response tokens; rows of padding have an empty mask."""
        mask = response_mask.bool()
        per_token, stats = clipped_policy_loss(
            log_prob, old_log_prob, advantages, mask, config.clip_ratio, config.clip_ratio_c or None, level
        )
        n_tokens = mask.sum().clamp(min=1)
        value = agg_loss(loss_mat=per_token, loss_mask=mask, loss_agg_mode=loss_agg_mode, **config.global_batch_info)
        return value, {
            "clip_fraction": (stats["clip_fraction"] / n_tokens).item(),
            "ppo_kl": (stats["ppo_kl"] / n_tokens).item(),
        }

    return loss


register_policy_loss("bepo_token")(_policy_loss("token"))
register_policy_loss("bepo_action")(_policy_loss("action"))


def value_loss(
    config: Any, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[Tensor, dict[str, Metric]]:
    """Return ``bepo.training.critic.clipped_value_loss`` averaged over the minibatch's response tokens.

    ``config`` is verl's config of the critic. The average is over the tokens of all data-parallel ranks, whose
    gradients verl averages: hence the factor ``dp_size``.
    """
    value = no_padding_2_padding(model_output["values"], data)
    dp_size, n_tokens = data["dp_size"], data["batch_num_tokens"]
    data = data.select("values", "returns", "response_mask").to_padded_tensor()
    mask = data["response_mask"].bool()
    per_token = clipped_value_loss(value, data["values"], data["returns"], mask, config.cliprange_value)
    loss = torch.sum(per_token) / n_tokens * dp_size
    return loss, {"value_loss": Metric(value=loss, aggregation=AggregationType.SUM)}
