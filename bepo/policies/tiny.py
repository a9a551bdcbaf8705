"""The built-in default policy: a Qwen-architecture model with about 0.2 M parameters and a word-level tokenizer."""

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


@dataclass
class WarmStart(Settings):
    """A supervised fit on a noisy expert's episodes, until the success rate on validation tasks reaches a target."""

    target_success: float = setting(0.4, at_least=0, at_most=1)
    """The fit stops at this success rate, measured at the evaluation temperature."""
    episodes: int = setting(600, at_least=1, at_most=1_000_000)
    """Number of demonstrated episodes, each on a training task."""
    noise: float = setting(0.3, at_least=0, at_most=1)
    """Probability that a demonstration takes a random action. The fit imitates the expert's action in any case."""
    max_steps: int = setting(2000, at_least=0)
    """Maximum number of gradient steps, even if the target is not reached."""
    check_every: int = setting(25, at_least=1)
    """Number of gradient steps between two measurements of the success rate."""
    batch_size: int = setting(128, at_least=1)
    """Number of demonstrated steps in a batch."""
    learning_rate: float = setting(1e-3, above=0)
    """Learning rate of the fit; the optimiser is AdamW."""
    seed: int = setting(0, at_least=0)
    """Seed of demonstrations, batches and the episodes that measure success."""

    group = "policy.warm_start"


@dataclass
class TinyModel(PolicyConfig):
    """The base class of built-in models, with random weights, a word-level vocabulary, and a warm start."""

    hidden_size: int = setting(64, at_least=1, at_most=65536)
    """The width of the transformer."""
    num_hidden_layers: int = setting(3, at_least=1, at_most=1024)
    """The number of layers."""
    num_attention_heads: int = setting(4, at_least=1, at_most=1024)
    """The number of attention heads of a layer."""
    intermediate_size: int = setting(192, at_least=1, at_most=65536)
    """The width of a layer's feed-forward part."""
    initializer_range: float = setting(0.02, above=0)
    """The standard deviation of the initial weights. transformers' default, 0.02, suits widths near 1,000. With 0.1,
    models of width 64 or 128 learn to imitate much sooner, but then memorise pictures (docs/laptop.md)."""
    max_prompt_length: int = setting(128, at_least=1, at_most=1_000_000)
    """Maximum number of tokens of a prompt, picture included. A longer prompt truncates its episode; a longer first
    prompt is an error."""
    max_response_length: int = setting(2, at_least=1, at_most=1_000_000)
    """Maximum number of tokens of a response, end-of-sequence token included."""
    seed: int = setting(0, at_least=0)
    """Seed of the initial weights. All training seeds share it: with its warm start, it stands for one pretrained
    model."""
    warm_start: WarmStart | None = field(default_factory=WarmStart)
    """The fit to demonstrations before training; null keeps the random weights."""

    presets: ClassVar[str]
    """The presets with an agent whose prompts the model can read."""

    @property
    def warm_start_settings(self) -> WarmStart | None:
        """The settings of the fit to demonstrations before training; None: no such fit."""
        return self.warm_start

    def _vocabulary(self, env: Environment, agent: Agent) -> list[str]:
        """Return every word that a prompt can contain. Raises ``UserError`` unless the style is compact."""
        if agent.style != "compact":
            raise UserError(
                f"policy={self.name} knows only the words of agent.style=compact, not of {agent.style!r}; "
                f"policy=tier sets compact for {self.presets}"
            )
        return [*COMPACT_WORDS, *(str(n) for n in range(env.horizon + 1)), *env.prompt.vocabulary]

    def _text_settings(self, tokenizer: transformers.PreTrainedTokenizerFast) -> dict[str, Any]:
        """Return the settings of the language model under the names of transformers' config."""
        # The vocabulary has exactly the tokenizer's size: verl masks a padded tail in vLLM, but not in training.
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
    """The architecture. Unlike qwen2, qwen3 normalises queries and keys, and has no attention bias."""

    method_version: ClassVar[int] = 2
    presets: ClassVar[str] = "tier=smoke and tier=laptop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % (2 * self.num_attention_heads):  # rotary positions rotate pairs of a head's numbers
            raise UserError(
                f"policy.hidden_size={self.hidden_size} must be a multiple of "
                f"2 policy.num_attention_heads={self.num_attention_heads}"
            )

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Draw the policy's weights from ``seed``. Raises ``UserError`` if it cannot read the agent's prompts."""
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
