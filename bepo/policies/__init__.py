"""Policies: files of this folder register the settings from which a ``LanguageModel`` is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bepo.core.registry import Plugin, Registry
from bepo.core.settings import setting
from bepo.envs import Environment
from bepo.rollouts.agent import Agent

if TYPE_CHECKING:
    from bepo.policies.lm.language_model import LanguageModel
    from bepo.policies.tiny import WarmStart


@dataclass
class PolicyConfig(Plugin):
    """Which language model to use. The fields are those that every policy has; each policy derives from this class."""

    max_prompt_length: int = setting(2048, at_least=1, at_most=1_000_000)
    """A prompt may have this many tokens, those of its picture included; a longer one ends its episode as a failure, or
    is an error where it is the first."""
    max_response_length: int = setting(512, at_least=1, at_most=1_000_000)
    """A response is cut at this many tokens; the end-of-sequence token counts."""
    constrained: bool = False
    """Sample admissible actions only."""

    group = "policy"
    reads_pictures: ClassVar[bool] = False
    """Does the model read pictures beside text?"""
    served: ClassVar[bool] = False
    """Is the policy only reached through an endpoint (``bepo.policies.served``)? Then it cannot be trained."""

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Return the policy as it is before any warm start. Raises ``UserError`` where it cannot play ``env``."""
        raise NotImplementedError

    @property
    def warm_start_settings(self) -> WarmStart | None:
        """How the policy is fitted to demonstrations before training; None where it is not."""
        return None

    @property
    def weights(self) -> str | None:
        """The folder of the weights, or their name on the model hub; None where ``build`` draws them."""
        return None

    @property
    def smallest_picture(self) -> int:
        """The number of pixels to which smaller pictures are enlarged before the model reads them."""
        return 0

    @property
    def trains_vision(self) -> bool:
        """Whether the vision tower, where there is one, is trained with the rest."""
        return True

    @property
    def recomputes_activations(self) -> bool:
        """Whether the backward pass recomputes activations to save memory (gradient checkpointing)."""
        return False


policies = Registry[PolicyConfig](__name__, "policy", "policy")
register = policies.register
