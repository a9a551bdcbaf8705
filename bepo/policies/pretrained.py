"""Pretrained weights of any causal language model that transformers can load, from a folder or the model hub."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bepo.core.errors import Missing, UserError, why
from bepo.core.phases import report
from bepo.core.settings import setting
from bepo.envs import Environment
from bepo.policies import PolicyConfig, asks_for_more, register
from bepo.policies.tiny import WarmStart
from bepo.rollouts.agent import Agent
from bepo.store.files import check_regular, digest, digest_of_file
from bepo.store.json_files import read_object

if TYPE_CHECKING:
    import transformers

    from bepo.policies.lm.language_model import LanguageModel

_OF_CHECKPOINT = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt")
"""Files of a checkpoint that change what its model does: weights, configs, tokenizer, chat template."""


@dataclass
class PretrainedText(PolicyConfig):
    """The base class of pretrained language models: how the weights in ``weights`` are loaded and trained."""

    gradient_checkpointing: bool = setting(True, identity=False)
    """Whether to recompute activations in the backward pass: updates need less memory and more time. Without effect
    where prefixes are shared."""
    share_prefixes: Literal["auto", "yes", "no"] = setting("auto", identity=False)
    """Whether common prefixes of prompts are computed once, as a prefix tree. It changes rounding. ``auto``: on a CPU,
    for the Llama, Qwen2 and Qwen3 architectures."""
    warm_start: WarmStart | None = setting(None, neutral=True)
    """A fit to an expert's demonstrations before training; null: training starts from the weights as they are."""

    @property
    def warm_start_settings(self) -> WarmStart | None:
        """The settings of the fit to demonstrations before training; None: no such fit."""
        return self.warm_start

    def check_agent(self, agent: Agent) -> None:
        super().check_agent(agent)
        if self.warm_start and not agent.reads_bare_actions:
            raise UserError(f"policy.warm_start: a demonstrated response is {asks_for_more(agent)}")

    @property
    def trains_adapters(self) -> bool:
        """Whether `backend=local` can train adapters of this policy."""
        return True

    @property
    def recomputes_activations(self) -> bool:
        """Whether the backward pass recomputes activations."""
        return self.gradient_checkpointing

    @property
    def origin(self) -> str:
        """The name of the weights in a folder of adapters."""
        assert self.weights is not None  # this policy has weights
        return self.weights

    def build(self, env: Environment, agent: Agent, device: str) -> LanguageModel:
        """Load the policy. Raises ``UserError`` if its weights are not a checkpoint."""
        import torch
        import transformers

        from bepo.policies.lm.adapters import add_adapters
        from bepo.policies.lm.language_model import LanguageModel
        from bepo.policies.lm.pretrained_model import PretrainedModel, can_share_prefixes

        path = self.weights
        assert path is not None  # this policy has weights
        report(f"policy={self.name}", f"loading {path}")
        tokenizer = load_tokenizer(path)
        model = load_pretrained(transformers.AutoModelForCausalLM, path, dtype=torch.float32)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        if self.lora.rank:
            add_adapters(model, self.lora)
        shares = device == "cpu" if self.share_prefixes == "auto" else self.share_prefixes == "yes"
        if shares and (why_not := can_share_prefixes(model)) and self.share_prefixes == "yes":
            raise UserError(f"policy.share_prefixes=yes: {why_not}")
        kind = PretrainedModel if shares and not can_share_prefixes(model) else LanguageModel
        if kind is LanguageModel and self.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        settings = self.max_prompt_length, self.max_response_length, self.constrained, device
        return kind(model, tokenizer, *settings, origin=self.origin)


@register
@dataclass
class Pretrained(PretrainedText):
    """Instruction-tuned weights of a language model."""

    name: Literal["pretrained"] = "pretrained"
    path: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A folder with a checkpoint that transformers can load, a name on the model hub, or a GGUF file."""

    method_version: ClassVar[int] = 3

    @property
    def weights(self) -> str:
        """The folder of the weights, or their name on the model hub. A GGUF file is converted to a folder first."""
        if not self.path.endswith(".gguf"):
            return self.path
        from bepo.policies.lm.gguf import converted

        return str(converted(Path(self.path).expanduser()))

    @property
    def origin(self) -> str:
        """The name of the weights in a folder of adapters."""
        return self.path

    def check_weights(self) -> None:
        if not self.path.endswith(".gguf"):
            check_path(self.path)

    @property
    def weights_digest(self) -> str | None:
        """The digest of the checkpoint at ``path``; None for a name on the model hub, which versions its files."""
        return digest_of_weights(self.path)


def weights_missing(path: str) -> Missing | None:
    """Return ``Missing`` if the weights at ``path``, a folder or a name on the model hub, are not here; else None."""
    from huggingface_hub import snapshot_download

    folder = readable_folder(path)
    if not (folder / "config.json").exists():
        try:
            folder = Path(snapshot_download(path, local_files_only=True))
        except (OSError, ValueError):
            return Missing(f"the weights of {path} are not on this machine", f"hf download {path}")
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        return Missing(f"{folder} has no weights", f"hf download {path}")
    return None


def digest_of_weights(path: str) -> str | None:
    """Return the digest of a GGUF file, or of a folder's weights, configs and tokenizer; None for anything else."""
    if path.endswith(".gguf"):
        return _digest_of(Path(path).expanduser())
    files = sorted(file for pattern in _OF_CHECKPOINT for file in Path(path).glob(pattern))
    return digest("\n".join(map(_digest_of, files))) if files else None


def _digest_of(file: Path) -> str:
    """Return the digest of a file, which is read once as long as it does not change."""
    size = check_regular(file, "file of a checkpoint")
    return _digest_read(file, size, file.stat().st_mtime_ns)


@lru_cache
def _digest_read(file: Path, size: int, changed: int) -> str:
    return digest_of_file(file)


def readable_folder(path: str) -> Path:
    """Return ``policy.path`` as a folder, even if it does not exist. Raises ``UserError`` if it cannot be read."""
    folder = Path(path)
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            (folder / "config.json").stat()
        for file in folder.iterdir() if folder.is_dir() else ():
            if not file.is_dir():
                check_regular(file, "file of a checkpoint")  # a pipe would be waited for
                file.open("rb").close()
    except (OSError, ValueError) as error:  # no permission, a loop of links, a name that is too long or has a null byte
        raise UserError(f"policy.path={path!r}: cannot be read ({why(error)})") from None
    return folder


def load_tokenizer(path: str) -> transformers.PreTrainedTokenizerFast:
    """Load a tokenizer as it was saved. Raises ``UserError`` if ``path`` has no tokenizer.

    For a Qwen2 checkpoint, AutoTokenizer always rebuilds Qwen's byte-pair encoding. It would not know the words of
    policy=tiny, whose tokenizer is word-level. Such tokenizers are therefore loaded without AutoTokenizer.
    """
    import transformers

    generic = has_generic_tokenizer(path)
    return load_pretrained(transformers.PreTrainedTokenizerFast if generic else transformers.AutoTokenizer, path)


def end_ids_of(path: str, tokenizer: transformers.PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the IDs of the tokens that end a response of the checkpoint at ``path``, as in ``LanguageModel``."""
    import transformers

    from bepo.policies.lm.language_model import end_ids

    try:
        generation = transformers.GenerationConfig.from_pretrained(path)
    except OSError:  # a checkpoint may lack a generation config
        generation = None
    return end_ids(tokenizer, generation)


def has_generic_tokenizer(path: str) -> bool:
    """Return whether a folder has a tokenizer of a generic class, such as the tokenizer of policy=tiny."""
    config = readable_folder(path) / "tokenizer_config.json"
    return config.exists() and read_object(config, "tokenizer config").get("tokenizer_class") == "TokenizersBackend"


def load_pretrained(part: Any, path: str, **settings: Any) -> Any:
    """Return ``part.from_pretrained(path, **settings)``. Raises ``UserError`` with the path if that fails.

    A checkpoint with custom code is refused; transformers would ask on a terminal whether to run it.
    """
    from safetensors import SafetensorError

    check_path(path)
    try:
        return part.from_pretrained(path, trust_remote_code=False, **settings)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise _unusable(path, "this checkpoint cannot be read", error) from error


def check_path(path: str) -> None:
    """Raise ``UserError`` if ``path`` is neither a folder nor a name on the model hub."""
    if weights_missing(path) and not os.path.isdir(path):
        _ask_hub(path)


def _ask_hub(path: str) -> None:
    """Raise ``UserError`` if the model hub does not have ``path``, at once: a download would retry for a minute."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(path, timeout=10)
    except Exception as error:  # any type: no network, no such name, no permission
        advice = f"where there is a network: hf download {path}; python -m bepo.doctor says what this machine has"
        why = f"not a folder with a checkpoint, and not available on the model hub; {advice}"
        raise _unusable(path, why, error) from error


def _unusable(path: str, why: str, error: Exception) -> UserError:
    problem = (str(error).strip() or repr(error)).splitlines()[0]
    return UserError(f"policy.path={path!r}: {why} ({problem})")
