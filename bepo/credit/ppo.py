"""PPO with a critic: generalised advantage estimation over response tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register


@register
@dataclass
class PPO(Estimator):
    """Advantages delta = r + gamma V' - V, A = delta + gamma lambda A' over tokens (Schulman et al., 2016; 2017).

    Needs a critic's value of every response token (``tokens.value``). ``scope`` defines a sequence:
    1. ``response`` (verl-agent's PPO): each response alone, with the whole episode's return on its last token. Values
       are not bootstrapped across steps.
    2. ``trajectory``: all responses of an episode in a row, with each step's reward on its response's last token.
    3. ``turn``: one decision per step, with the value of its first token. All tokens of a step share its advantage and
       value target. This is our reading of Turn-PPO, whose details are not public.
    """

    name: Literal["ppo"] = "ppo"
    gamma: float = setting(1.0, at_least=0, at_most=1)
    """Discount from one token, or turn, to the next."""
    gae_lambda: float = setting(1.0, at_least=0, at_most=1)
    """Decay of residuals along the sequence, times ``gamma``."""
    scope: Literal["response", "trajectory", "turn"] = "response"
    """The definition of a sequence (see above). Only ``trajectory`` and ``turn`` bootstrap across steps."""
    whiten: bool = True
    """Whether to standardise advantages over all response tokens of the update (verl's ``masked_whiten``)."""
    std: Literal["population", "sample"] = setting("population", neutral=True)
    """The standard deviation that ``whiten`` divides by. verl, verl-agent and ``credit=ppo_ungrouped`` at tier paper
    use ``sample`` (Bessel's correction); the published runs used ``population``."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the reward of an invalid transition, on its last token."""

    label: ClassVar[str] = "PPO (with critic)"
    colour: ClassVar[str] = "#880066"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Schulman et al., 2017, PPO; 2016, GAE, Eq. 16"
    traits: ClassVar[Traits] = {
        "needs": "step rewards, a critic's value of every response token",
        "step_credit": "Critic",
        "temporal": "Yes",
        "mixing": "None",
    }
    needs_critic: ClassVar[bool] = True

    @property
    def mixes_groups(self) -> bool:
        return self.whiten

    def __call__(self, batch: RolloutBatch) -> Credit:
        tokens = batch.tokens
        if tokens is None or len(tokens.value) != len(tokens.logprob):
            raise UserError("credit=ppo needs a critic's value of every response token, which these rollouts lack")
        if (tokens.response_length == 0).any():
            raise UserError("credit=ppo needs a token in every response, which these rollouts lack")
        value = tokens.value.astype(np.float64)
        transition = np.repeat(np.arange(len(batch)), tokens.response_length)
        advantage = self._turns(batch, value)[transition] if self.scope == "turn" else self._tokens(batch, value)
        first = tokens.response_offset[:-1]
        target = advantage + (value[first][transition] if self.scope == "turn" else value)
        if self.whiten:
            ddof = int(self.std == "sample" and len(advantage) > 1)
            advantage = (advantage - advantage.mean()) / np.sqrt(advantage.var(ddof=ddof) + 1e-8)
        mean = np.bincount(transition, weights=advantage, minlength=len(batch)) / tokens.response_length
        return Credit(
            mean,
            metrics={
                "value_mean": float(value.mean()),
                "value_target_mean": float(target.mean()),
                "explained_variance": _explained_variance(value, target),
            },
            token_advantage=advantage,
            token_return=target,
        )

    def _tokens(self, batch: RolloutBatch, value: Float[np.ndarray, " R"]) -> Float[np.ndarray, " R"]:
        """Return the advantage of each response token; the value after a sequence's end is 0."""
        last = batch.language.response_offset[1:] - 1
        reward = np.zeros(len(value))
        ends = np.zeros(len(value), bool)
        if self.scope == "response":
            reward[last] = batch.episode_return[batch.trajectory] - self.invalid_penalty * ~batch.valid
            ends[last] = True
        else:
            reward[last] = batch.reward - self.invalid_penalty * ~batch.valid
            ends[last[batch.last]] = True
        goes_on = ~ends
        residual = reward - value
        residual[:-1] += self.gamma * value[1:] * goes_on[:-1]
        return _backward(residual, self.gamma * self.gae_lambda * goes_on)

    def _turns(self, batch: RolloutBatch, value: Float[np.ndarray, " R"]) -> Float[np.ndarray, " N"]:
        """Return the advantage of each transition as one decision, with the value of its first token."""
        worth = value[batch.language.response_offset[:-1]]
        goes_on = batch.terminal == 0
        residual = batch.reward - self.invalid_penalty * ~batch.valid - worth
        residual[:-1] += self.gamma * worth[1:] * goes_on[:-1]
        return _backward(residual, self.gamma * self.gae_lambda * goes_on)


def _backward(x: Float[np.ndarray, " n"], decay: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return ``y_i = x_i + decay_i y_{i+1}``, for all sequences at once; a decay of 0 ends a sequence."""
    ends = np.flatnonzero(decay == 0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    y = x.copy()
    for back in range(1, int((ends - starts).max()) + 1):
        at = ends - back
        at = at[at >= starts]
        y[at] += decay[at] * y[at + 1]
        keep = ends - back >= starts
        ends, starts = ends[keep], starts[keep]
    return y


def _explained_variance(value: np.ndarray, target: np.ndarray) -> float:
    """Return 1 - Var(target - value) / Var(target): 1 for a perfect critic, 0 for a constant one."""
    variance = target.var()
    return float(1 - (target - value).var() / variance) if variance > 0 else 0.0
