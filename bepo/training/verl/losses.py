"""The losses of ``bepo`` in the form that verl calls. verl's workers import this file by its name.

Shapes: b transitions with at most r response tokens each, padded.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss, kl_penalty, register_policy_loss
from verl.utils.metric import AggregationType, Metric
from verl.utils.tensordict_utils import assign_non_tensor
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from bepo.losses import Loss
from bepo.training.critic import clipped_value_loss
from bepo.training.verl.patches import patch_training

patch_training()  # verl imports this file in the processes that train

STATISTIC = "loss/"  # prefix of a policy loss's statistics among verl's metrics


def actor_loss(
    config: Any, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None, *, loss: Loss
) -> tuple[Tensor, dict[str, Any]]:
    """Return verl's loss of the actor (policy loss, entropy bonus and KL loss) with ``loss`` as its policy loss.

    ``config`` is verl's config of the actor. verl looks up a policy loss by its name, so ``loss`` is first registered
    in the worker that calls this function. verl divides means over responses by the number of rows of the optimiser
    step; here that number is ``data["responses_of_step"]``, which leaves padding out. Statistics of the loss, entropy
    and KL are means over the response tokens of the step, as in backend=local; verl aggregates the last two like the
    loss, and averages the first over micro-batches of any size.
    """
    assign_non_tensor(data, global_batch_size=int(data["responses_of_step"][0]))
    register_policy_loss(config.policy_loss.loss_mode)(partial(policy_loss, loss))
    value, metrics = ppo_loss(config, model_output, data, dp_group)
    parts = {name: metric.aggregate() for name, metric in metrics.items() if name.startswith(STATISTIC)}
    of_loss = {name: Metric(AggregationType.SUM, part) for name, part in parts.items()}
    return value, metrics | of_loss | _token_means(config, model_output, data)


@torch.no_grad()
def _token_means(config: Any, model_output: dict[str, Tensor], data: TensorDict) -> dict[str, Metric]:
    """Return entropy and KL of a micro-batch as its part of the mean over the step's response tokens."""
    names = ["response_mask", *["ref_log_prob"] * config.use_kl_loss]
    padded = data.select(*names).to_padded_tensor()
    per_token = {"actor/entropy_loss": no_padding_2_padding(model_output["entropy"], data)}
    if config.use_kl_loss:
        log_prob = no_padding_2_padding(model_output["log_probs"], data)
        per_token["kl_loss"] = kl_penalty(log_prob, padded["ref_log_prob"], config.kl_loss_type)
    mask = padded["response_mask"].bool()
    means = {name: agg_loss(x, mask, "token-mean", **config.global_batch_info) for name, x in per_token.items()}
    return {name: Metric(AggregationType.SUM, mean) for name, mean in means.items()}


def policy_loss(
    loss: Loss,
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str,
    config: Any,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of response tokens, aggregated like in verl, and its statistics over the step's number of tokens.

    The arguments after ``loss`` are verl's, shape (b, r). Rows of padding have an empty mask. ``rollout_is_weights``
    are the weights of verl's correction for the difference between sampling and training
    (``algorithm.rollout_correction``); they multiply the losses of tokens, as in verl's own policy losses. Only verl's
    GMPO differs: it multiplies a response's loss by the geometric mean of the weights of its tokens.
    """
    mask = response_mask.bool()
    per_token, stats = loss(log_prob, old_log_prob, advantages, mask)
    if rollout_is_weights is not None:
        per_token = per_token * rollout_is_weights
    value = agg_loss(loss_mat=per_token, loss_mask=mask, loss_agg_mode=loss_agg_mode, **config.global_batch_info)
    info = config.global_batch_info
    share = info["dp_size"] / info["batch_num_tokens"]  # verl averages over ranks
    return value, {f"{STATISTIC}{name}": (total * share).item() for name, total in stats.items()}


def value_loss(
    config: Any, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[Tensor, dict[str, Metric]]:
    """Return ``bepo.training.critic.clipped_value_loss`` averaged over the minibatch's response tokens.

    ``config`` is verl's config of the critic. The average is over the tokens of all data-parallel ranks. verl averages
    their gradients; the factor ``dp_size`` compensates for that.
    """
    value = no_padding_2_padding(model_output["values"], data)
    dp_size, n_tokens = data["dp_size"], data["batch_num_tokens"]
    data = data.select("values", "returns", "response_mask").to_padded_tensor()
    mask = data["response_mask"].bool()
    per_token = clipped_value_loss(value, data["values"], data["returns"], mask, config.cliprange_value)
    loss = torch.sum(per_token) / n_tokens * dp_size
    return loss, {"value_loss": Metric(value=loss, aggregation=AggregationType.SUM)}
