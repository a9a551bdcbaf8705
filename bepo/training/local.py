"""One process: PPO updates of a ``LanguageModel`` on rollout records."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from bepo.collect import Sampling, collect, derive_seed
from bepo.envs import Task
from bepo.errors import Missing, UserError
from bepo.policies.language_model import LanguageModel
from bepo.rollout import RolloutGroup, Tokens
from bepo.training import Optimisation
from bepo.training.backend import Setup, register
from bepo.training.batching import grid, micro_batches
from bepo.training.critic import Critic
from bepo.training.loss import clipped_policy_loss, low_var_kl
from bepo.training.warm_start import initial_policy

PACKAGES = ("torch", "transformers", "numpy", "hydra-core", "wandb")


@register
@dataclass
class Local:
    """Everything in this process, on one device."""

    name: Literal["local"] = "local"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int = 1
    """CPU threads. Part of the run's identity: another number rounds differently."""

    def resolve(self) -> str:
        """The device to use; sets the thread count. Raises ``UserError`` where CUDA is asked for and absent."""
        if self.device == "cuda" and (problem := gpu_missing()):
            raise UserError(f"backend.device=cuda: {problem}; choices: auto, cpu")
        if self.threads < 1:
            raise UserError(f"backend.threads={self.threads}: at least 1")
        torch.set_num_threads(self.threads)
        return "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"

    def missing(self) -> Missing | None:
        return gpu_missing() if self.device == "cuda" else None

    def start(self, setup: Setup) -> LocalEngine:
        return LocalEngine(setup)


def gpu_missing() -> Missing | None:
    """Why torch cannot use a GPU here."""
    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None and shutil.which("nvidia-smi"):
        wheel = torch.__version__.split("+")[0]
        return Missing("torch is a CPU build beside a GPU", f"pip install --force-reinstall torch=={wheel}")
    return Missing("torch finds no GPU", "nvidia-smi (on a machine with an NVIDIA GPU, to see that its driver works)")


class LocalEngine:
    """A policy, and its learner, in this process."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.policy = setup, initial_policy(setup)
        self.learner = LocalLearner(self.policy, setup.training, setup.sampling, setup.needs_critic)
        self.update, self.save, self.load = self.learner.update, self.learner.save, self.learner.load
        self.end_token = self.policy.tokenizer.eos_token_id
        self.facts = {
            "backend": "local",
            "device": setup.device,
            "world_size": 1,
            "versions": {name: version(name) for name in PACKAGES},
        }

    def collect(self, tasks: Sequence[Task], size: int, sampling: Sampling, seed: int) -> RolloutGroup:
        return collect(self.setup.env, self.setup.agent, self.policy, tasks, size, sampling, seed)

    def evaluate_tokens(self, group: RolloutGroup) -> dict[str, float]:
        start = time.perf_counter()
        self.learner.evaluate_tokens(group)
        return {"values": time.perf_counter() - start} if self.learner.critic is not None else {}

    def close(self) -> None:
        pass


class LocalLearner:
    """AdamW on the policy; a frozen copy of its first weights is the KL reference. A critic where one is needed."""

    def __init__(
        self, policy: LanguageModel, settings: Optimisation, sampling: Sampling, needs_critic: bool = False
    ) -> None:
        self.policy, self.settings, self.sampling = policy, settings, sampling
        self.critic = Critic(policy, settings.critic) if needs_critic else None
        self.reference = policy.frozen_copy() if settings.kl else None
        self.optimiser = torch.optim.AdamW(
            policy.model.parameters(),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
        )

    def evaluate_tokens(self, group: RolloutGroup) -> None:
        """Fill in ``group.tokens.value``, where there is a critic."""
        if self.critic is not None:
            group.tokens.value = self.critic.values(group.tokens, self.settings.max_tokens)

    def update(
        self,
        group: RolloutGroup,
        advantage: Float[np.ndarray, " R"],
        seed: int,
        target: Float[np.ndarray, " R"] | None = None,
    ) -> dict[str, float]:
        """PPO over the records, in minibatches drawn from ``seed``, from an advantage for every response token.

        ``target`` is what the critic is fitted to. Returns means over tokens and optimiser steps.
        """
        self.policy.model.train()
        totals: dict[str, float] = defaultdict(float)
        for epoch in range(self.settings.epochs):
            order = np.random.default_rng(derive_seed(seed, epoch)).permutation(len(group))
            for start in range(0, len(order), self.settings.minibatch):
                records = order[start : start + self.settings.minibatch]
                self._step(group.tokens, advantage, records, totals)
                if self.critic is not None:
                    found = self.critic.step(group.tokens, target, records, self.settings.max_tokens)
                    for name, value in found.items():
                        totals[name] += value
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
        s = self.settings
        scores = self.policy.score(tokens, batch, self.sampling)
        old, credit = (grid(tokens, batch, x, scores.logprob) for x in (tokens.logprob, advantage))
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
        if self.critic is not None:
            self.critic.save(folder)

    def load(self, folder: Path) -> None:
        self.policy.load_weights(folder / "policy")
        device = self.policy.device
        self.optimiser.load_state_dict(torch.load(folder / "optimiser.pt", map_location=device, weights_only=True))
        if self.critic is not None:
            self.critic.load(folder)


def _averaged(totals: dict[str, float]) -> dict[str, float]:
    steps, tokens = totals.pop("steps"), totals.pop("tokens")
    out = {"optimiser_steps": steps, "first_ratio_error": totals.pop("first_ratio_error")}
    for norm in ("grad_norm", "critic_grad_norm"):
        if norm in totals:
            out[norm] = totals.pop(norm) / steps
    return out | {name: value / tokens for name, value in totals.items()}
