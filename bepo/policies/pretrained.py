"""Real weights: any causal language model that transformers can load, by path or by hub name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from huggingface_hub import snapshot_download
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from bepo.agents import Agent
from bepo.envs import Environment
from bepo.errors import Missing, UserError
from bepo.policies import register
from bepo.policies.language_model import LanguageModel


@register
@dataclass
class Pretrained:
    """Instruction-tuned weights; nothing is warm-started."""

    name: Literal["pretrained"] = "pretrained"
    path: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A folder with a transformers checkpoint, or a name on the model hub."""
    max_prompt: int = 2048
    max_response: int = 512
    constrained: bool = False
    gradient_checkpointing: bool = True

    method_version: ClassVar[int] = 1

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        tokenizer = load_tokenizer(self.path)
        model = loaded(AutoModelForCausalLM, self.path, dtype=torch.float32)
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return LanguageModel(model, tokenizer, self.max_prompt, self.max_response, self.constrained, device)


def weights_missing(path: str) -> Missing | None:
    """Are the weights at ``path`` on this machine: a checkpoint's folder, or in the hub's cache?"""
    folder = Path(path)
    if not (folder / "config.json").exists():
        try:
            folder = Path(snapshot_download(path, local_files_only=True))
        except (OSError, ValueError):
            return Missing(f"the weights of {path} are not on this machine", f"hf download {path}")
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        return Missing(f"{folder} holds no weights", f"hf download {path}")
    return None


def load_tokenizer(path: str) -> PreTrainedTokenizerFast:
    """As it was saved. Of a Qwen2 checkpoint, transformers rebuilds the vocabulary of whatever tokenizer it finds as
    Qwen's byte-pair encoding: with the word-level one of policy=tiny, every word would be a stranger."""
    config = Path(path) / "tokenizer_config.json"
    general = config.exists() and json.loads(config.read_text()).get("tokenizer_class") == "TokenizersBackend"
    return loaded(PreTrainedTokenizerFast if general else AutoTokenizer, path)


def loaded(part: type, path: str, **settings: Any) -> Any:
    """``part.from_pretrained(path)``, or a ``UserError`` that names the path."""
    try:
        return part.from_pretrained(path, **settings)
    except (OSError, ValueError) as error:
        raise UserError(
            f"policy.path={path!r}: not a folder with a checkpoint, and not to be had from the model hub "
            f"({str(error).splitlines()[0]})"
        ) from error
