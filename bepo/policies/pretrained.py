"""Pretrained weights: any causal language model that transformers can load, from a folder or the model hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bepo.core.errors import Missing, UserError, why
from bepo.core.settings import setting
from bepo.envs import Environment
from bepo.policies import PolicyConfig, register
from bepo.rollouts.agent import Agent
from bepo.store.files import check_regular, read_object

if TYPE_CHECKING:
    import transformers

    from bepo.policies.lm.language_model import LanguageModel


@register
@dataclass
class Pretrained(PolicyConfig):
    """Instruction-tuned weights of a language model, without a warm start."""

    name: Literal["pretrained"] = "pretrained"
    path: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A folder with a checkpoint that transformers can load, or a name on the model hub."""
    gradient_checkpointing: bool = setting(True, identity=False)
    """Recompute activations in the backward pass: updates need less memory and more time."""

    method_version: ClassVar[int] = 2

    @property
    def weights(self) -> str:
        """The folder of the weights, or their name on the model hub."""
        return self.path

    @property
    def recomputes_activations(self) -> bool:
        """Whether the backward pass recomputes activations."""
        return self.gradient_checkpointing

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Load the policy. Raises ``UserError`` where there is no checkpoint at ``path``."""
        import torch
        import transformers

        from bepo.policies.lm.language_model import LanguageModel

        tokenizer = load_tokenizer(self.path)
        model = load_pretrained(transformers.AutoModelForCausalLM, self.path, dtype=torch.float32)
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return LanguageModel(
            model, tokenizer, self.max_prompt_length, self.max_response_length, self.constrained, device
        )


def weights_missing(path: str) -> Missing | None:
    """Return what is missing of the weights at ``path``, a folder or a name on the model hub; None if they are here."""
    from huggingface_hub import snapshot_download

    folder = readable_folder(path)
    if not (folder / "config.json").exists():
        try:
            folder = Path(snapshot_download(path, local_files_only=True))
        except (OSError, ValueError):
            return Missing(f"the weights of {path} are not on this machine", f"hf download {path}")
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        return Missing(f"{folder} holds no weights", f"hf download {path}")
    return None


def readable_folder(path: str) -> Path:
    """Return ``policy.path`` as a folder, which need not exist. Raises ``UserError`` for one that may not be read."""
    folder = Path(path)
    try:
        (folder / "config.json").stat()
        if folder.is_dir():
            for file in folder.iterdir():
                if not file.is_dir():
                    check_regular(file, "file of a checkpoint")  # a pipe would be waited for
                    file.open("rb").close()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # no permission, a loop of links, a name too long, a null byte in it
        raise UserError(f"policy.path={path!r}: cannot be read ({why(error)})") from None
    return folder


def load_tokenizer(path: str) -> transformers.PreTrainedTokenizerFast:
    """Load a tokenizer as it was saved. Raises ``UserError`` where there is none at ``path``.

    For a Qwen2 checkpoint, AutoTokenizer rebuilds the vocabulary as Qwen's byte-pair encoding, whatever tokenizer was
    saved: every word of policy=tiny, whose tokenizer is word-level, would be unknown. Such tokenizers are therefore
    loaded without it.
    """
    import transformers

    generic = has_generic_tokenizer(path)
    return load_pretrained(transformers.PreTrainedTokenizerFast if generic else transformers.AutoTokenizer, path)


def end_ids_of(path: str, tokenizer: transformers.PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of the tokens that end a response of the checkpoint at ``path``, as ``LanguageModel`` does."""
    import transformers

    from bepo.policies.lm.language_model import end_ids

    try:
        generation = transformers.GenerationConfig.from_pretrained(path)
    except OSError:  # a checkpoint does not need one
        generation = None
    return end_ids(tokenizer, generation)


def has_generic_tokenizer(path: str) -> bool:
    """Return whether a folder has a tokenizer of no model's own class, such as that of policy=tiny."""
    config = readable_folder(path) / "tokenizer_config.json"
    return config.exists() and read_object(config, "tokenizer config").get("tokenizer_class") == "TokenizersBackend"


def load_pretrained(part: Any, path: str, **settings: Any) -> Any:
    """Return ``part.from_pretrained(path, **settings)``. Raises ``UserError`` naming the path where that fails.

    A checkpoint that brings code of its own is refused; transformers would ask on a terminal whether to run it.
    """
    from safetensors import SafetensorError

    if weights_missing(path) and not os.path.isdir(path):
        _ask_hub(path)
    try:
        return part.from_pretrained(path, trust_remote_code=False, **settings)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise _unusable(path, "this checkpoint cannot be read", error) from error


def _ask_hub(path: str) -> None:
    """Raise ``UserError`` where the model hub does not have ``path``, at once: downloads retry for a minute."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(path, timeout=10)
    except Exception as error:  # no network, no such name, no leave: its library has a class for each
        raise _unusable(path, "not a folder with a checkpoint, and not to be had from the model hub", error) from error


def _unusable(path: str, why: str, error: Exception) -> UserError:
    problem = (str(error).strip() or repr(error)).splitlines()[0]
    return UserError(f"policy.path={path!r}: {why} ({problem})")
