"""A critic: a copy of the policy's backbone with a scalar head and a separate optimiser.

Sizes: N transitions and R response tokens of a batch; b transitions and r response tokens of a micro-batch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bepo.core.batch import Tokens
from bepo.policies.lm.adapters import copy_sharing_frozen
from bepo.policies.lm.batching import response_grid, response_mask, response_places
from bepo.policies.lm.language_model import LanguageModel
from bepo.training import CriticSettings


class Critic:
    """A model of the values of response tokens. A token's value is the output at the position before the token.

    The head starts at 0, so every value is 0 before the first update.
    """

    def __init__(self, policy: LanguageModel, settings: CriticSettings) -> None:
        self.policy, self.settings = policy, settings
        self.backbone = copy_sharing_frozen(policy.model.base_model)
        hidden_size = policy.model.config.get_text_config().hidden_size
        self.head = nn.Linear(hidden_size, 1).to(policy.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.optimiser = torch.optim.AdamW(
            self.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable weights."""
        return [*self.backbone.parameters(), *self.head.parameters()]

    def values(self, tokens: Tokens, max_tokens: int) -> Float[np.ndarray, " R"]:
        """Return the value of every response token, with at most ``max_tokens`` tokens in a micro-batch."""
        values = np.empty(len(tokens.logprob), np.float32)
        transitions = np.arange(len(tokens.response_length))
        with torch.no_grad():
            for micro_batch in self.policy.micro_batches(tokens, transitions, max_tokens):
                value, mask = self._forward(tokens, micro_batch)
                values[response_places(tokens, micro_batch)] = value[mask].cpu().numpy()
        return values

    def step(
        self, tokens: Tokens, returns: Float[np.ndarray, " R"], minibatch: Int[np.ndarray, " m"], max_tokens: int
    ) -> dict[str, float]:
        """Make one optimiser step on the mean loss over the minibatch's response tokens.

        ``returns`` are the targets, ``tokens.value`` the values at rollout time. Returns ``value_loss``, summed over
        tokens, and ``critic_grad_norm`` before clipping.
        """
        self.backbone.train()  # gradient checkpointing needs training mode
        n_tokens = int(tokens.response_length[minibatch].sum())
        self.optimiser.zero_grad()
        total = 0.0
        for micro_batch in self.policy.micro_batches(tokens, minibatch, max_tokens):
            value, mask = self._forward(tokens, micro_batch)
            old, target = (response_grid(tokens, micro_batch, x, value) for x in (tokens.value, returns))
            loss = clipped_value_loss(value, old, target, mask, self.settings.clip_eps).sum()
            (loss / n_tokens).backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(self.parameters(), self.settings.max_grad_norm)
        self.optimiser.step()
        return {"value_loss": total, "critic_grad_norm": norm.item()}

    def _forward(
        self, tokens: Tokens, transitions: Int[np.ndarray, " b"]
    ) -> tuple[Float[Tensor, "b r"], Bool[Tensor, "b r"]]:
        """Return the values of the transitions' response tokens, and which entries are tokens."""
        asked = response_mask(tokens, transitions)
        mask = torch.from_numpy(asked).to(self.policy.device)
        value = self.head(self.policy.hidden(tokens, transitions, asked, self.backbone)).squeeze(-1)
        return value.new_zeros(mask.shape).masked_scatter(mask, value), mask

    def save(self, folder: Path) -> None:
        """Write weights and optimiser into ``critic.pt``."""
        torch.save({name: part.state_dict() for name, part in self._saved_parts().items()}, folder / "critic.pt")

    def load(self, folder: Path) -> None:
        """Restore what ``save`` wrote."""
        state = torch.load(folder / "critic.pt", map_location=self.policy.device, weights_only=True)
        for name, part in self._saved_parts().items():
            part.load_state_dict(state[name])

    def _saved_parts(self) -> dict[str, nn.Module | torch.optim.Optimizer]:
        return {"backbone": self.backbone, "head": self.head, "optimiser": self.optimiser}


def clipped_value_loss(
    value: Float[Tensor, "b r"],
    old: Float[Tensor, "b r"],
    target: Float[Tensor, "b r"],
    mask: Bool[Tensor, "b r"],
    clip_eps: float,
) -> Float[Tensor, "b r"]:
    """Return max[(V - G)^2, (V_clipped - G)^2] of each token, 0 where ``mask`` is False (verl-agent).

    G is ``target``. V_clipped is V, clipped to within ``clip_eps`` of ``old``, the value at rollout time. The
    factor 1/2 of later versions of verl is left out, as in verl-agent.
    """
    clipped = old + (value - old).clamp(-clip_eps, clip_eps)
    return torch.maximum((value - target) ** 2, (clipped - target) ** 2) * mask
