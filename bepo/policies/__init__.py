"""Policies. Each file of this folder registers the settings of one policy; its name is a choice of ``policy``.

Policies to train build a ``LanguageModel``. Served policies build no model: an endpoint answers their requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bepo.core.errors import UserError
from bepo.core.registry import Plugin, Registry
from bepo.core.settings import Settings, setting
from bepo.envs import Environment
from bepo.rollouts.agent import Agent

if TYPE_CHECKING:
    from bepo.policies.lm.language_model import LanguageModel
    from bepo.policies.tiny import WarmStart

ADAPTER_CONFIG = "adapter_config.json"
"""The file by which a folder of adapters is known (peft's name)."""


@dataclass
class LoRA(Settings):
    """Low-rank adapters, which are trained instead of the weights (Hu et al., 2021)."""

    rank: int = setting(0, at_least=0, at_most=1024)
    """Rank of the adapters; 0: no adapters, all weights are trained."""
    alpha: int = setting(16, at_least=1, at_most=65536)
    """Scale of the adapters: their product is multiplied by alpha / rank."""
    modules: list[str] = setting(factory=list)
    """Names of the layers with adapters, such as `[q_proj,v_proj]`; empty: all linear layers but the head."""
    layers: int = setting(0, at_least=0, at_most=1024, neutral=True)
    """Number of upper decoder layers with adapters; 0: all. Layers below them are computed once for each prompt."""
    seed: int = setting(0, at_least=0, neutral=True)
    """Seed of the initial adapters. All training seeds share it."""

    group = "policy.lora"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rank:
            self.refuse_idle(
                ("layers", "modules", "alpha"), "policy.lora.rank=0 (no adapters)", instead="policy.lora.rank=8"
            )


@dataclass
class PolicyConfig(Plugin):
    """The base class of policies, with the settings that all of them have."""

    max_prompt_length: int = setting(2048, at_least=1, at_most=1_000_000)
    """Maximum number of tokens of a prompt, picture included. A longer prompt truncates its episode; a longer first
    prompt is an error."""
    max_response_length: int = setting(512, at_least=1, at_most=1_000_000)
    """Maximum number of tokens of a response, end-of-sequence token included."""
    constrained: bool = False
    """Whether to sample only admissible actions."""
    lora: LoRA = setting(factory=LoRA, neutral=True)
    """Low-rank adapters."""

    group = "policy"
    reads_pictures: ClassVar[bool] = False
    """Whether the model reads pictures too."""
    served: ClassVar[bool] = False
    """Whether the policy is behind an endpoint (``bepo.policies.served``), and so cannot be trained."""

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Return the policy before any warm start. Raises ``UserError`` if it cannot play ``env``."""
        raise NotImplementedError

    def check_agent(self, agent: Agent) -> None:
        """Raise ``UserError`` if responses of this policy cannot be what ``agent`` reads."""
        if self.constrained and not agent.reads_bare_actions:
            raise UserError(f"policy.constrained=true: a response is {asks_for_more(agent)}")

    def check_weights(self) -> None:
        """Raise ``UserError`` if the weights can be found neither here nor on the model hub.

        Runs call this before they make task sets, which can take minutes.
        """

    @property
    def warm_start_settings(self) -> WarmStart | None:
        """The settings of the fit to demonstrations before training; None: no such fit."""
        return None

    @property
    def weights(self) -> str | None:
        """The folder of the weights, or their name on the model hub; None if ``build`` draws them at random."""
        return None

    @property
    def trains_adapters(self) -> bool:
        """Whether `backend=local` can train adapters of this policy."""
        return False

    @property
    def weights_digest(self) -> str | None:
        """The digest of the weights that ``build`` loads; None if the settings determine them."""
        return None

    @property
    def smallest_picture(self) -> int:
        """The number of pixels to which smaller pictures are enlarged."""
        return 0

    @property
    def trains_vision(self) -> bool:
        """Whether the vision tower, if there is one, is trained too."""
        return True

    @property
    def recomputes_activations(self) -> bool:
        """Whether the backward pass recomputes activations to save memory (gradient checkpointing)."""
        return False


def asks_for_more(agent: Agent) -> str:
    """Return, for an error message, what is wrong with bare actions where ``agent`` reads none."""
    style = "agent.style=full" if agent.style == "full" else "agent.reasoning=true"
    return f"an action alone, but {style} asks for more; choices: agent.style=brief, agent.style=compact"


policies = Registry[PolicyConfig](__name__, "policy", "policy")
register = policies.register
