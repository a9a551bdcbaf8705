"""The built-in default policy: a Qwen-architecture model of about 0.1 M parameters with a tokenizer of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bepo.core.errors import UserError
from bepo.core.settings import Settings, setting
from bepo.envs import Environment
from bepo.policies import PolicyConfig, register
from bepo.rollouts.agent import COMPACT_WORDS, Agent

if TYPE_CHECKING:
    import transformers

    from bepo.policies.lm.language_model import LanguageModel

ACT = "<act>"
"""The last word of a prompt: it asks for an action."""


@dataclass
class WarmStart(Settings):
    """A supervised fit on a noisy expert's episodes, until the success rate on validation tasks reaches a target."""

    target_success: float = setting(0.4, at_least=0, at_most=1)
    """The fit stops at this success rate, measured at the evaluation temperature."""
    episodes: int = setting(600, at_least=1, at_most=1_000_000)
    """The number of demonstrated episodes, each on a training task."""
    noise: float = setting(0.3, at_least=0, at_most=1)
    """The probability that the action taken in a demonstration is random; the expert's is imitated all the same."""
    max_steps: int = setting(2000, at_least=0)
    """The fit stops after this many gradient steps, whether it has reached its target or not."""
    check_every: int = setting(25, at_least=1)
    """The success rate is measured after every so many gradient steps."""
    batch_size: int = setting(128, at_least=1)
    """The number of demonstrated steps in the batch of a gradient step."""
    learning_rate: float = setting(1e-3, above=0)
    """The learning rate of the fit; the optimiser is AdamW."""
    seed: int = setting(0, at_least=0)
    """Demonstrations, batches and the episodes that measure success follow from this seed."""

    group = "policy.warm_start"


@dataclass
class TinyModel(PolicyConfig):
    """What the built-in models share: random weights, a word-level vocabulary, and a warm start."""

    hidden_size: int = setting(64, at_least=1, at_most=65536)
    """The width of the transformer."""
    num_hidden_layers: int = setting(3, at_least=1, at_most=1024)
    """The number of layers."""
    num_attention_heads: int = setting(4, at_least=1, at_most=1024)
    """The number of attention heads of a layer."""
    intermediate_size: int = setting(192, at_least=1, at_most=65536)
    """The width of a layer's feed-forward part."""
    initializer_range: float = setting(0.02, above=0)
    """The standard deviation of the initial weights. The default of transformers, 0.02, suits widths near 1,000. Models
    of width 64 or 128 learn to imitate far sooner from 0.1, but then memorise pictures (docs/laptop.md)."""
    max_prompt_length: int = setting(128, at_least=1, at_most=1_000_000)
    """A prompt may have this many tokens, those of its picture included; a longer one is an error."""
    max_response_length: int = setting(2, at_least=1, at_most=1_000_000)
    """A response is cut at this many tokens; the end-of-sequence token counts."""
    seed: int = setting(0, at_least=0)
    """The initial weights follow from this seed. With the warm start it stands for one pretrained model, which all
    training seeds share."""
    warm_start: WarmStart | None = field(default_factory=WarmStart)
    """How the model is fitted to demonstrations before training; null leaves the weights as they are drawn."""

    presets: ClassVar[str]
    """The presets that set an agent whose prompts the model can read."""

    @property
    def warm_start_settings(self) -> WarmStart | None:
        """How the policy is fitted to demonstrations before training; None where it is not."""
        return self.warm_start

    def _vocabulary(self, env: Environment, agent: Agent) -> list[str]:
        """Return every word that a prompt can contain. Raises ``UserError`` for another style than compact."""
        if agent.style != "compact":
            raise UserError(
                f"policy={self.name} knows only the words of agent.style=compact, not {agent.style!r}; "
                f"policy=tier sets it at {self.presets}"
            )
        return [*COMPACT_WORDS, *(str(n) for n in range(env.horizon + 1)), *env.prompt.vocabulary]

    def _text_settings(self, tokenizer: transformers.PreTrainedTokenizerFast) -> dict[str, Any]:
        """Return the settings of the language model as transformers' config names them."""
        # The vocabulary is exactly the tokenizer's: verl masks a padded tail in vLLM but not in training.
        return {
            "vocab_size": len(tokenizer),
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_attention_heads,
            "initializer_range": self.initializer_range,
            "max_position_embeddings": self.max_prompt_length + self.max_response_length,
            "bos_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        }


@register
@dataclass
class Tiny(TinyModel):
    """A small transformer for text. It knows no language before its warm start."""

    name: Literal["tiny"] = "tiny"
    architecture: Literal["qwen2", "qwen3"] = "qwen2"
    """The architecture; qwen3 differs from qwen2 in that it normalises queries and keys and has no attention bias."""

    method_version: ClassVar[int] = 2
    presets: ClassVar[str] = "tier=smoke and tier=laptop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % (2 * self.num_attention_heads):  # rotary positions turn pairs of a head's numbers
            raise UserError(
                f"policy.hidden_size={self.hidden_size} must be a multiple of "
                f"2 policy.num_attention_heads={self.num_attention_heads}"
            )

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Draw the policy's weights from ``seed``. Raises ``UserError`` for an agent whose prompts it cannot read."""
        import torch
        import transformers

        from bepo.policies.lm.tiny_model import TinyLanguageModel, build_tokenizer

        tokenizer = build_tokenizer(self._vocabulary(env, agent))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = transformers.AutoModelForCausalLM.from_config(
                transformers.AutoConfig.for_model(
                    self.architecture,
                    **self._text_settings(tokenizer),
                    head_dim=self.hidden_size // self.num_attention_heads,
                    tie_word_embeddings=False,
                )
            )
        return TinyLanguageModel(
            model, tokenizer, self.max_prompt_length, self.max_response_length, self.constrained, device
        )
