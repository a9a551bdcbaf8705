"""The embedded default policy for pictures: a Qwen2.5-VL-architecture model of about 1 M parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from bepo.agents import Agent
from bepo.envs import IMAGE, Environment
from bepo.errors import UserError
from bepo.policies import register
from bepo.policies.tiny import ACT, TinyModel, build_tokenizer
from bepo.policies.vision_language import VisionLanguageModel

START, PICTURE, VIDEO, STOP = MARKERS = ("<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>")
_CHAT = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    f"{{% if part['type'] == 'image' %}}{START}{PICTURE}{STOP}{{% else %}}{{{{ part['text'] }}}}{{% endif %}}"
    "{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %} " + ACT + "{% endif %}"
)


@register
@dataclass
class TinyVL(TinyModel):
    """A model that has never seen anything either."""

    name: Literal["tiny_vl"] = "tiny_vl"
    hidden: int = 128
    layers: int = 4
    heads: int = 8
    intermediate: int = 384
    vision_hidden: int = 64
    vision_layers: int = 1
    patch: int = 16
    """Pixels of a patch's side. Sokoban draws a cell in 16, so that an image token is exactly a cell."""
    merge: int = 1
    """merge x merge patches become one image token (Qwen2.5-VL: 2)."""
    rope_theta: float = 2.0
    """m-rope gives columns the lowest frequencies: with the usual 10,000 and heads this small they would be one."""
    freeze_vision: bool = False
    """Leave the vision tower as it was drawn. Random features tell the tiles apart; where they move, the language model
    learns to read them later or not at all (docs/performance.md)."""

    method_version: ClassVar[int] = 2
    presets: ClassVar[str] = "smoke_vl and laptop_vl"

    def __post_init__(self) -> None:
        # Vision rotates quarters of a head; m-rope needs pairs for time, rows and columns.
        for name, least in (("hidden", 8), ("vision_hidden", 4)):
            if getattr(self, name) % (least * self.heads):
                value = getattr(self, name)
                raise UserError(f"policy.{name}={value} must be a multiple of {least} policy.heads={self.heads}")

    def build(self, env: Environment, agent: Agent, device: str) -> VisionLanguageModel:
        vocabulary = self._vocabulary(env, agent)
        if IMAGE not in vocabulary:
            raise UserError(f"policy=tiny_vl looks at pictures, and env={env.name} shows none: env.observation=rgb")
        tokenizer = build_tokenizer([w for w in vocabulary if w != IMAGE], MARKERS)
        tokenizer.chat_template = _CHAT
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = Qwen2_5_VLForConditionalGeneration(self._architecture(tokenizer))
        if self.freeze_vision:
            model.base_model.visual.requires_grad_(False)
        return VisionLanguageModel(
            model, tokenizer, self._image_processor(), self.max_prompt, self.max_response, self.constrained, device
        )

    def _image_processor(self) -> Qwen2VLImageProcessorPil:
        side = self.patch * self.merge
        return Qwen2VLImageProcessorPil(
            patch_size=self.patch,
            merge_size=self.merge,
            temporal_patch_size=1,
            size={"shortest_edge": side**2, "longest_edge": self.max_prompt * side**2},
        )

    def _architecture(self, tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLConfig:
        start, picture, video, stop = tokenizer.convert_tokens_to_ids(list(MARKERS))
        turns = self.hidden // self.heads // 2  # rotated pairs of a head, shared out as in Qwen2.5-VL
        across = 3 * turns // 8
        text = self._text_settings(tokenizer) | {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "mrope_section": [turns - 2 * across, across, across],
            }
        }
        vision = {
            "depth": self.vision_layers,
            "hidden_size": self.vision_hidden,
            "intermediate_size": 2 * self.vision_hidden,
            "num_heads": self.heads,
            "patch_size": self.patch,
            "spatial_merge_size": self.merge,
            "initializer_range": self.initializer_range,
            "temporal_patch_size": 1,
            "out_hidden_size": self.hidden,
            "fullatt_block_indexes": list(range(self.vision_layers)),
        }
        return Qwen2_5_VLConfig(
            text_config=text,
            vision_config=vision,
            image_token_id=picture,
            video_token_id=video,
            vision_start_token_id=start,
            vision_end_token_id=stop,
            tie_word_embeddings=False,
        )
