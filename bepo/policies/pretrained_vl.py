"""Real weights that see: a vision-language model of the Qwen2-VL family, by path or by hub name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from transformers import AutoModelForImageTextToText, Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from bepo.agents import Agent
from bepo.envs import Environment
from bepo.errors import UserError
from bepo.policies import register
from bepo.policies.pretrained import load_tokenizer, loaded
from bepo.policies.vision_language import VisionLanguageModel


@register
@dataclass
class PretrainedVL:
    """Instruction-tuned weights; nothing is warm-started. Reads pictures and plain text."""

    name: Literal["pretrained_vl"] = "pretrained_vl"
    path: str = "Qwen/Qwen2.5-VL-3B-Instruct"
    """A folder with a transformers checkpoint, or a name on the model hub."""
    min_pixels: int = 252 * 252
    """Smaller pictures are enlarged. A 96 x 96 board becomes 252 x 252, which is 81 image tokens, as in verl-agent."""
    max_prompt: int = 1024
    """Tokens, those of the picture included."""
    max_response: int = 512
    constrained: bool = False
    freeze_vision: bool = False
    """Leave the vision tower as it is."""
    gradient_checkpointing: bool = True

    method_version: ClassVar[int] = 1

    def build(self, env: Environment, agent: Agent, device: str) -> VisionLanguageModel:
        tokenizer = load_tokenizer(self.path)
        model = loaded(AutoModelForImageTextToText, self.path, dtype=torch.float32)
        if not hasattr(model.base_model, "get_rope_index"):
            raise UserError(f"policy.path={self.path!r}: {type(model).__name__} is not of the Qwen2-VL family")
        # The processor knows how to write a picture into a prompt; whole, it would want torchvision for videos.
        described, _ = Qwen2_5_VLProcessor.get_processor_dict(self.path)
        tokenizer.chat_template = described.get("chat_template", tokenizer.chat_template)
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        if self.freeze_vision:
            model.base_model.visual.requires_grad_(False)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        pictures = loaded(Qwen2VLImageProcessorPil, self.path, min_pixels=self.min_pixels)
        return VisionLanguageModel(
            model, tokenizer, pictures, self.max_prompt, self.max_response, self.constrained, device
        )
