"""One process: PPO updates of a ``LanguageModel`` on rollout records."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from bepo.collect import Sampling, derive_seed
from bepo.errors import UserError
from bepo.policies.language_model import LanguageModel
from bepo.rollout import RolloutGroup, Tokens
from bepo.training import Optimisation
from bepo.training.loss import clipped_policy_loss, low_var_kl


@dataclass
class Local:
    """Everything in this process, on one device."""

    name: Literal["local"] = "local"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = 1
    """CPU threads. Part of the run's identity: another number rounds differently."""

    def resolve(self) -> str:
        """The device to use; sets the thread count. Raises ``UserError`` where CUDA is asked for and absent."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UserError("backend.device=cuda, but torch finds no GPU; choices: auto, cpu")
        torch.set_num_threads(self.threads)
        return "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"


class LocalLearner:
    """AdamW on the policy; a frozen copy of its first weights is the KL reference."""

    def __init__(self, policy: LanguageModel, settings: Optimisation, sampling: Sampling) -> None:
        self.policy, self.settings, self.sampling = policy, settings, sampling
        self.reference = _frozen_copy(policy) if settings.kl else None
        self.optimiser = torch.optim.AdamW(
            policy.model.parameters(),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
        )

    def update(self, group: RolloutGroup, advantage: Float[np.ndarray, "N"], seed: int) -> dict[str, float]:
        """PPO over the records, in minibatches drawn from ``seed``. Returns means over tokens and optimiser steps."""
        self.policy.model.train()
        totals: dict[str, float] = defaultdict(float)
        for epoch in range(self.settings.epochs):
            order = np.random.default_rng(derive_seed(seed, epoch)).permutation(len(group))
            for start in range(0, len(order), self.settings.minibatch):
                self._step(group.tokens, advantage, order[start : start + self.settings.minibatch], totals)
        return _averaged(totals)

    def _step(self, tokens: Tokens, advantage: np.ndarray, records: np.ndarray, totals: dict[str, float]) -> None:
        """One optimiser step; the loss is the mean over the minibatch's response tokens (``token-mean``)."""
        n_tokens = int(tokens.response_length[records].sum())
        self.optimiser.zero_grad()
        for batch in micro_batches(tokens, records, self.settings.max_tokens):
            loss = self._loss(tokens, advantage, batch, totals, first=totals["steps"] == 0)
            (loss / n_tokens).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), self.settings.grad_clip)
        self.optimiser.step()
        totals["steps"] += 1
        totals["tokens"] += n_tokens
        totals["grad_norm"] += norm.item()

    def _loss(
        self, tokens: Tokens, advantage: np.ndarray, batch: np.ndarray, totals: dict[str, float], first: bool
    ) -> torch.Tensor:
        """Loss summed over the response tokens of a micro-batch."""
        scores = self.policy.score(tokens, batch, self.sampling)
        old = _grid(tokens, batch, scores.logprob)
        credit = torch.as_tensor(advantage[batch], dtype=torch.float32, device=old.device)
        s = self.settings
        policy_loss, stats = clipped_policy_loss(scores.logprob, old, credit, scores.mask, s.clip, s.dual_clip, s.ratio)
        loss = policy_loss.sum() - s.entropy * scores.entropy.sum()
        if self.reference is not None:
            with torch.no_grad():
                anchor = self.reference.score(tokens, batch, self.sampling).logprob
            kl = low_var_kl(scores.logprob, anchor, scores.mask).sum()
            loss = loss + s.kl * kl
            totals["kl"] += kl.item()
        ratio_error = stats.pop("ratio_error").item()
        if first:
            totals["first_ratio_error"] = max(totals["first_ratio_error"], ratio_error)
        totals["policy_loss"] += policy_loss.sum().item()
        totals["entropy"] += scores.entropy.sum().item()
        for name, value in stats.items():
            totals[name] += value.item()
        return loss

    # --- checkpoints ---------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        self.policy.save(folder / "policy")
        torch.save(self.optimiser.state_dict(), folder / "optimiser.pt")

    def load(self, folder: Path) -> None:
        self.policy.load_weights(folder / "policy")
        device = self.policy.device
        self.optimiser.load_state_dict(torch.load(folder / "optimiser.pt", map_location=device, weights_only=True))


def micro_batches(tokens: Tokens, records: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Records bucketed by length, so that no padded batch exceeds ``max_tokens`` (a longer record goes alone)."""
    length = tokens.prompt_length[records] + tokens.response_length[records]
    records = records[np.argsort(length, kind="stable")]
    length = np.sort(length)
    start = 0
    while start < len(records):
        sizes = np.arange(1, len(records) - start + 1)
        fits = int((sizes * length[start:] <= max_tokens).sum())
        stop = start + max(fits, 1)
        yield records[start:stop]
        start = stop


def _grid(tokens: Tokens, records: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Sampling-time log-probabilities of the records' responses, right-padded like ``like``."""
    grid = torch.zeros_like(like, requires_grad=False)
    for row, i in enumerate(records):
        start, stop = tokens.response_offset[i], tokens.response_offset[i + 1]
        grid[row, : stop - start] = torch.from_numpy(tokens.logprob[start:stop])
    return grid


def _averaged(totals: dict[str, float]) -> dict[str, float]:
    steps, tokens = totals.pop("steps"), totals.pop("tokens")
    out = {"optimiser_steps": steps, "first_ratio_error": totals.pop("first_ratio_error")}
    out["grad_norm"] = totals.pop("grad_norm") / steps
    return out | {name: value / tokens for name, value in totals.items()}


def _frozen_copy(policy: LanguageModel) -> LanguageModel:
    twin = LanguageModel(
        copy.deepcopy(policy.model),
        policy.tokenizer,
        policy.max_prompt,
        policy.max_response,
        policy.constrained,
        str(policy.device),
    )
    twin.model.eval().requires_grad_(False)
    return twin
