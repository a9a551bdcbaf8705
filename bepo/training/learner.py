"""Updates of a ``LanguageModel`` in one process.

Sizes: N transitions and R response tokens of a batch; b transitions and r response tokens of a micro-batch.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bepo.core.batch import RolloutBatch, Tokens
from bepo.core.errors import UserError
from bepo.core.phases import report_within
from bepo.losses import Loss
from bepo.policies.lm.batching import response_grid, response_places
from bepo.policies.lm.language_model import LanguageModel
from bepo.rollouts.collect import Sampling
from bepo.training import Optimisation
from bepo.training.critic import Critic
from bepo.training.minibatches import minibatches

Grid = Float[Tensor, "b r"]


class LocalLearner:
    """AdamW on the policy's weights, with a critic if the estimator needs one.

    The reference of the KL loss is a frozen copy of the policy at the time when the learner is made.
    """

    def __init__(
        self,
        policy: LanguageModel,
        loss: Loss,
        settings: Optimisation,
        sampling: Sampling,
        needs_critic: bool = False,
    ) -> None:
        """``sampling`` are the parameters of the rollouts; log-probabilities use the same distribution."""
        self.policy, self.loss, self.settings, self.sampling = policy, loss, settings, sampling
        self.critic = Critic(policy, settings.critic) if needs_critic else None
        self.reference = policy.frozen_copy() if settings.kl_coef else None
        self.optimiser = torch.optim.AdamW(
            policy.model.parameters(),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def update(
        self,
        batch: RolloutBatch,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        returns: Float[np.ndarray, " R"] | None = None,
    ) -> dict[str, float]:
        """Update policy and critic on the batch, in minibatches whose order follows from ``seed``.

        ``advantage`` has one number for every response token. ``returns``, of the same shape, is the critic's target;
        None without a critic. Raises ``UserError`` if a weight is not finite after the update. Returns:
        * ``optimiser_steps``, their number;
        * ``first_ratio_error``, the largest distance of an importance ratio from 1 in the first minibatch;
        * gradient norms, averaged over optimiser steps;
        * ``policy_loss``, averaged according to ``loss.aggregation``;
        * the other statistics, averaged over response tokens.
        """
        tokens = batch.language
        self.policy.model.train()
        reference = self._reference_log_probs(tokens)
        totals: dict[str, float] = defaultdict(float)
        for epoch in range(self.settings.epochs):
            of_epoch = list(minibatches(len(batch), self.settings.minibatch_size, seed, epoch))
            for number, minibatch in enumerate(of_epoch, start=1):
                report_within(f"policy update, minibatch {number} of {len(of_epoch)}")
                self._step(tokens, advantage, reference, minibatch, totals)
                if self.critic is not None:
                    assert returns is not None
                    stats = self.critic.step(tokens, returns, minibatch, self.settings.micro_batch_tokens)
                    for name, value in stats.items():
                        totals[name] += value
        trained = [*self.policy.model.parameters(), *(self.critic.parameters() if self.critic else [])]
        if not all(weights.isfinite().all() for weights in trained):
            raise UserError(
                f"training.learning_rate={self.settings.learning_rate}: a weight became NaN or infinite; this update "
                "is not saved; choose a lower learning rate"
            )
        return _averaged(totals)

    def _reference_log_probs(self, tokens: Tokens) -> Float[np.ndarray, " R"] | None:
        """Return the reference's log-probability of every response token, or None without a reference."""
        if self.reference is None:
            return None
        logprob = np.empty(len(tokens.logprob), np.float32)
        transitions = np.arange(len(tokens.response_length))
        with torch.no_grad():
            for micro_batch in self.policy.micro_batches(tokens, transitions, self.settings.micro_batch_tokens):
                scored = self.reference.log_probs(tokens, micro_batch, self.sampling)
                logprob[response_places(tokens, micro_batch)] = scored.logprob[scored.mask].cpu().numpy()
        return logprob

    def _step(
        self,
        tokens: Tokens,
        advantage: Float[np.ndarray, " R"],
        reference: Float[np.ndarray, " R"] | None,
        minibatch: Int[np.ndarray, " m"],
        totals: dict[str, float],
    ) -> None:
        """Make one optimiser step, and add its statistics to ``totals``.

        ``loss.aggregation`` decides how the loss is averaged over the minibatch.
        """
        n_tokens = int(tokens.response_length[minibatch].sum())
        denominator = self.loss.denominator(len(minibatch), n_tokens)
        self.optimiser.zero_grad()
        for micro_batch in self.policy.micro_batches(tokens, minibatch, self.settings.micro_batch_tokens):
            loss = self._loss(tokens, advantage, reference, micro_batch, totals, is_first=totals["steps"] == 0)
            (loss / denominator).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), self.settings.max_grad_norm)
        self.optimiser.step()
        totals["steps"] += 1
        totals["tokens"] += n_tokens
        totals["denominator"] += denominator
        totals["grad_norm"] += norm.item()

    def _loss(
        self,
        tokens: Tokens,
        advantage: Float[np.ndarray, " R"],
        reference: Float[np.ndarray, " R"] | None,
        micro_batch: Int[np.ndarray, " b"],
        totals: dict[str, float],
        is_first: bool,
    ) -> Float[Tensor, ""]:
        """Return the loss of a micro-batch, summed by ``loss.reduce``, and add its statistics to ``totals``."""
        s = self.settings
        new = self.policy.log_probs(tokens, micro_batch, self.sampling)
        old, credit = (response_grid(tokens, micro_batch, x, new.logprob) for x in (tokens.logprob, advantage))
        policy_loss, stats = self.loss(new.logprob, old, credit, new.mask)
        reduced = self.loss.reduce(policy_loss, new.mask)
        loss = reduced - s.entropy_coef * self.loss.reduce(new.entropy, new.mask)
        if reference is not None:
            kl = low_var_kl(new.logprob, response_grid(tokens, micro_batch, reference, new.logprob), new.mask)
            loss = loss + s.kl_coef * self.loss.reduce(kl, new.mask)
            totals["kl"] += kl.sum().item()
        if is_first:
            ratio = (new.logprob - old).detach().clamp(-20, 20).exp()
            ratio_error = ((ratio - 1).abs() * new.mask).max().item()
            totals["first_ratio_error"] = max(totals["first_ratio_error"], ratio_error)
        totals["policy_loss"] += reduced.item()
        totals["entropy"] += new.entropy.sum().item()
        for name, value in stats.items():
            totals[name] += value.item()
        return loss

    def save(self, folder: Path) -> None:
        """Write ``policy/`` in transformers' format, ``optimiser.pt``, and ``critic.pt`` if there is a critic."""
        self.policy.save(folder / "policy")
        torch.save(self.optimiser.state_dict(), folder / "optimiser.pt")
        if self.critic is not None:
            self.critic.save(folder)

    def load(self, folder: Path) -> None:
        """Restore a checkpoint of ``save``. The next update gives the same weights as without the interruption."""
        self.policy.load_weights(folder / "policy")
        device = self.policy.device
        self.optimiser.load_state_dict(torch.load(folder / "optimiser.pt", map_location=device, weights_only=True))
        if self.critic is not None:
            self.critic.load(folder)


def _averaged(totals: dict[str, float]) -> dict[str, float]:
    """Divide each sum by its count: optimiser steps, response tokens or the loss's denominators."""
    steps, tokens, policy_loss = totals.pop("steps"), totals.pop("tokens"), totals.pop("policy_loss")
    stats = {"optimiser_steps": steps, "first_ratio_error": totals.pop("first_ratio_error")}
    stats["policy_loss"] = policy_loss / totals.pop("denominator")
    for norm in ("grad_norm", "critic_grad_norm"):
        if norm in totals:
            stats[norm] = totals.pop(norm) / steps
    return stats | {name: total / tokens for name, total in totals.items()}


def low_var_kl(logprob: Grid, reference_logprob: Grid, mask: Bool[Tensor, "b r"]) -> Grid:
    """Return the estimate k3 of KL(policy || reference) for each token, which is never negative (Schulman, 2020).

    It is exp(d) - d - 1 with d = reference_logprob - logprob, clamped to at most 10 as in verl; 0 where ``mask`` is
    False.
    """
    log_ratio = (reference_logprob - logprob).clamp(-20, 20)
    return (log_ratio.exp() - log_ratio - 1).clamp(-10, 10) * mask
