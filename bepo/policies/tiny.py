"""The embedded default policy: a Qwen-architecture model of about 0.1 M parameters with its own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import (
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from bepo.agents import COMPACT_WORDS, Agent
from bepo.envs import Environment
from bepo.errors import UserError
from bepo.policies import register
from bepo.policies.language_model import LanguageModel

PAD, END, UNKNOWN, ACT = "<pad>", "<end>", "<unk>", "<act>"
_SPECIAL = (PAD, END, UNKNOWN, ACT)
_ARCHITECTURES = {"qwen2": Qwen2Config, "qwen3": Qwen3Config}
_PIECE = r"<[a-z]+>|[A-Za-z]?[a-z]+|[0-9]+|\S"  # a word, a number, or one symbol (so a board row is its cells)
_CHAT = "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} " + ACT + "{% endif %}"


@dataclass
class WarmStart:
    """Supervised fit on a noisy expert's episodes, until success on validation tasks reaches ``target``."""

    target: float = 0.4
    """Success rate, at the evaluation temperature, at which the fit stops."""
    episodes: int = 600
    """Demonstrated episodes, each on a training task."""
    noise: float = 0.3
    """Probability that a demonstrated step is a random action; such steps are taken but not imitated."""
    max_steps: int = 2000
    """Gradient steps after which the fit stops anyway."""
    check_every: int = 25
    """Gradient steps between two looks at the success rate."""
    batch: int = 128
    learning_rate: float = 1e-3
    seed: int = 0
    """Of demonstrations and batches."""


@dataclass
class TinyModel:
    """What built-in models have in common: a small transformer with random weights, a word-level vocabulary, and a
    warm start."""

    hidden: int = 64
    layers: int = 3
    heads: int = 4
    intermediate: int = 192
    initializer_range: float = 0.02
    """Standard deviation of initial weights. transformers' 0.02 suits widths near 1,000; widths of 64 or 128 imitate
    far sooner from 0.1, but what pictures then teach them is learnt by heart (docs/performance.md)."""
    max_prompt: int = 128
    """Tokens, those of a picture included."""
    max_response: int = 2
    """Tokens, the end-of-sequence token included."""
    constrained: bool = False
    """Sample admissible actions only."""
    seed: int = 0
    """Of the initial weights. With the warm start it stands for one "pretrained" model, shared by training seeds."""
    warm_start: WarmStart | None = field(default_factory=WarmStart)

    presets: ClassVar[str]  # those that bring the agent along

    def _vocabulary(self, env: Environment, agent: Agent) -> list[str]:
        """Every word of a prompt. Raises ``UserError`` for a style of prompts that has others."""
        if agent.style != "compact":
            raise UserError(
                f"policy={self.name} knows only the words of agent.style=compact, not {agent.style!r}; "
                f"the presets {self.presets} set it"
            )
        return [*COMPACT_WORDS, *(str(n) for n in range(env.horizon + 1)), *env.prompt.words]

    def _text_settings(self, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
        # The vocabulary is exactly the tokenizer's: verl masks a padded tail in vLLM but not in training.
        return {
            "vocab_size": len(tokenizer),
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "initializer_range": self.initializer_range,
            "max_position_embeddings": self.max_prompt + self.max_response,
            "bos_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        }


@register
@dataclass
class Tiny(TinyModel):
    """A transformer that knows no language."""

    name: Literal["tiny"] = "tiny"
    architecture: Literal["qwen2", "qwen3"] = "qwen2"
    """Qwen3 normalises queries and keys, and has no attention bias."""

    method_version: ClassVar[int] = 1
    presets: ClassVar[str] = "smoke_small and laptop_small"

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise UserError(f"policy.hidden={self.hidden} must be a multiple of policy.heads={self.heads}")

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        tokenizer = build_tokenizer(self._vocabulary(env, agent))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = AutoModelForCausalLM.from_config(self._model_config(tokenizer))
        return LanguageModel(model, tokenizer, self.max_prompt, self.max_response, self.constrained, device)

    def _model_config(self, tokenizer: PreTrainedTokenizerFast) -> PreTrainedConfig:
        return _ARCHITECTURES[self.architecture](
            **self._text_settings(tokenizer), head_dim=self.hidden // self.heads, tie_word_embeddings=False
        )


def build_tokenizer(words: Sequence[str], markers: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """Word-level tokenizer over ``words``; case is kept, white space is dropped, strangers become ``<unk>``.

    ``markers`` are special tokens besides.
    """
    vocabulary = {word: i for i, word in enumerate([*_SPECIAL, *markers, *dict.fromkeys(words)])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Split(Regex(_PIECE), behavior="removed", invert=True)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=list(markers),
        padding_side="left",
    )
    fast.chat_template = _CHAT
    return fast
