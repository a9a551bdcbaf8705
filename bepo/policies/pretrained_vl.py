"""Pretrained weights of a vision-language model of the Qwen2-VL family, from a folder or the model hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from bepo.core.errors import UserError
from bepo.core.settings import setting
from bepo.envs import Environment
from bepo.policies import PolicyConfig, register
from bepo.policies.pretrained import check_path, digest_of_weights, load_pretrained, load_tokenizer
from bepo.rollouts.agent import Agent

if TYPE_CHECKING:
    from bepo.policies.lm.vision_language import VisionLanguageModel


@register
@dataclass
class PretrainedVL(PolicyConfig):
    """Instruction-tuned weights of a vision-language model, without a warm start. It reads pictures and plain text."""

    name: Literal["pretrained_vl"] = "pretrained_vl"
    path: str = "Qwen/Qwen2.5-VL-3B-Instruct"
    """A folder with a checkpoint that transformers can load, or a name on the model hub."""
    min_pixels: int = setting(252 * 252, at_least=1)
    """Smaller pictures are enlarged. A board of 96 x 96 pixels becomes 252 x 252, or 81 image tokens (verl-agent)."""
    max_prompt_length: int = setting(1024, at_least=1)
    """Maximum number of tokens of a prompt, picture included. A longer prompt truncates its episode; a longer first
    prompt is an error."""
    freeze_vision: bool = False
    """Whether to keep the pretrained weights of the vision tower."""
    gradient_checkpointing: bool = setting(True, identity=False)
    """Whether to recompute activations in the backward pass: updates need less memory and more time."""

    reads_pictures: ClassVar[bool] = True
    method_version: ClassVar[int] = 2

    @property
    def weights(self) -> str:
        """The folder of the weights, or their name on the model hub."""
        return self.path

    def check_weights(self) -> None:
        check_path(self.path)

    @property
    def weights_digest(self) -> str | None:
        """The digest of the checkpoint at ``path``; None for a name on the model hub, which versions its files."""
        return digest_of_weights(self.path)

    @property
    def smallest_picture(self) -> int:
        """The number of pixels to which smaller pictures are enlarged."""
        return self.min_pixels

    @property
    def trains_vision(self) -> bool:
        """Whether the vision tower is trained too."""
        return not self.freeze_vision

    @property
    def recomputes_activations(self) -> bool:
        """Whether the backward pass recomputes activations."""
        return self.gradient_checkpointing

    def build(self, env: Environment, agent: Agent, device: str) -> VisionLanguageModel:
        """Load the policy. Raises ``UserError`` without a checkpoint, or for a model of another family."""
        import torch
        import transformers

        from bepo.policies.lm.vision_language import VisionLanguageModel

        tokenizer = load_tokenizer(self.path)
        model = load_pretrained(transformers.AutoModelForImageTextToText, self.path, dtype=torch.float32)
        if not hasattr(model.base_model, "get_rope_index"):
            raise UserError(f"policy.path={self.path!r}: {type(model).__name__} is not a model of the Qwen2-VL family")
        # Take only the processor's chat template, which writes a picture into a prompt: the processor itself would need
        # torchvision for videos.
        processor, _ = transformers.Qwen2_5_VLProcessor.get_processor_dict(self.path)
        tokenizer.chat_template = processor.get("chat_template", tokenizer.chat_template)
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        if self.freeze_vision:
            model.base_model.visual.requires_grad_(False)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return VisionLanguageModel(
            model,
            tokenizer,
            load_pretrained(transformers.Qwen2VLImageProcessorPil, self.path, min_pixels=self.min_pixels),
            self.max_prompt_length,
            self.max_response_length,
            self.constrained,
            device,
        )
