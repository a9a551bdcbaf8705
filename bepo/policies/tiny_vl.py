"""The built-in default policy for pictures: a Qwen2.5-VL-architecture model with about 1 M parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bepo.core.errors import UserError
from bepo.core.settings import setting
from bepo.envs import IMAGE, Environment
from bepo.policies import register
from bepo.policies.lm.chat import ACT
from bepo.policies.tiny import TinyModel
from bepo.rollouts.agent import Agent

if TYPE_CHECKING:
    import transformers

    from bepo.policies.lm.vision_language import VisionLanguageModel

START, PICTURE, VIDEO, STOP = MARKERS = ("<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>")
_CHAT = (
    "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    f"{{% if part['type'] == 'image' %}}{START}{PICTURE}{STOP}{{% else %}}{{{{ part['text'] }}}}{{% endif %}}"
    "{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %} " + ACT + "{% endif %}"
)


@register
@dataclass
class TinyVL(TinyModel):
    """A small vision-language model. It knows neither language nor pictures before its warm start."""

    name: Literal["tiny_vl"] = "tiny_vl"
    hidden_size: int = setting(128, at_least=1, at_most=65536)
    """The width of the transformer."""
    num_hidden_layers: int = setting(4, at_least=1, at_most=1024)
    """The number of layers."""
    num_attention_heads: int = setting(8, at_least=1, at_most=1024)
    """The number of attention heads of a layer, also in the vision tower."""
    intermediate_size: int = setting(384, at_least=1, at_most=65536)
    """The width of a layer's feed-forward part."""
    vision_hidden_size: int = setting(64, at_least=1, at_most=65536)
    """The width of the vision tower; its feed-forward parts are twice as wide."""
    vision_depth: int = setting(1, at_least=1, at_most=1024)
    """The number of layers of the vision tower."""
    patch_size: int = setting(16, at_least=1, at_most=1024)
    """The side of a patch in pixels. Sokoban's cells have 16 x 16 pixels, so one image token is one cell."""
    spatial_merge_size: int = setting(1, at_least=1, at_most=1024)
    """An image token merges this many x this many patches (2 in Qwen2.5-VL)."""
    rope_theta: float = setting(2.0, above=0)
    """The base of rotary positions. Columns have m-rope's lowest frequencies: with the usual 10,000, heads this small
    could not distinguish columns."""
    freeze_vision: bool = False
    """Whether to keep the random weights of the vision tower. Random features distinguish the tiles. If the tower is
    trained, the language model learns to read them later or never (docs/laptop.md)."""

    reads_pictures: ClassVar[bool] = True
    method_version: ClassVar[int] = 3
    presets: ClassVar[str] = "tier=smoke model=vl and tier=laptop model=vl"

    @property
    def trains_vision(self) -> bool:
        """Whether the vision tower is trained too."""
        return not self.freeze_vision

    def __post_init__(self) -> None:
        super().__post_init__()
        # The vision tower rotates quarters of a head; m-rope needs one pair each for time, rows and columns.
        for name, value, factor in (
            ("hidden_size", self.hidden_size, 8),
            ("vision_hidden_size", self.vision_hidden_size, 4),
        ):
            if value % (factor * self.num_attention_heads):
                raise UserError(
                    f"policy.{name}={value} must be a multiple of "
                    f"{factor} policy.num_attention_heads={self.num_attention_heads}"
                )

    def build(self, env: Environment, agent: Agent, device: str) -> VisionLanguageModel:
        """Draw the policy's weights from ``seed``.

        Raises ``UserError`` if it cannot read the agent's prompts, and for an environment without pictures.
        """
        import torch
        import transformers

        from bepo.policies.lm.tiny_model import build_tokenizer
        from bepo.policies.lm.vision_language import VisionLanguageModel

        vocabulary = self._vocabulary(env, agent)
        if IMAGE not in vocabulary:
            raise UserError(f"policy=tiny_vl needs pictures, but env={env.name} shows text; choose env.observation=rgb")
        tokenizer = build_tokenizer([word for word in vocabulary if word != IMAGE], MARKERS)
        tokenizer.chat_template = _CHAT
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = transformers.Qwen2_5_VLForConditionalGeneration(self._architecture(tokenizer))
        if self.freeze_vision:
            model.base_model.visual.requires_grad_(False)
        return VisionLanguageModel(
            model,
            tokenizer,
            self._image_processor(),
            self.max_prompt_length,
            self.max_response_length,
            self.constrained,
            device,
        )

    def _image_processor(self) -> transformers.Qwen2VLImageProcessorPil:
        import transformers

        side = self.patch_size * self.spatial_merge_size
        return transformers.Qwen2VLImageProcessorPil(
            patch_size=self.patch_size,
            merge_size=self.spatial_merge_size,
            temporal_patch_size=1,
            size={"shortest_edge": side**2, "longest_edge": self.max_prompt_length * side**2},
        )

    def _architecture(self, tokenizer: transformers.PreTrainedTokenizerFast) -> transformers.Qwen2_5_VLConfig:
        import transformers

        ids: Any = tokenizer.convert_tokens_to_ids(list(MARKERS))  # a list, because the argument is a list
        start, picture, video, stop = ids
        pairs = self.hidden_size // self.num_attention_heads // 2  # rotated pairs of a head, divided as in Qwen2.5-VL
        spatial = 3 * pairs // 8  # pairs for rows, and as many for columns
        text = self._text_settings(tokenizer) | {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "mrope_section": [pairs - 2 * spatial, spatial, spatial],
            }
        }
        vision = {
            "depth": self.vision_depth,
            "hidden_size": self.vision_hidden_size,
            "intermediate_size": 2 * self.vision_hidden_size,
            "num_heads": self.num_attention_heads,
            "patch_size": self.patch_size,
            "spatial_merge_size": self.spatial_merge_size,
            "initializer_range": self.initializer_range,
            "temporal_patch_size": 1,
            "out_hidden_size": self.hidden_size,
            "fullatt_block_indexes": list(range(self.vision_depth)),
        }
        return transformers.Qwen2_5_VLConfig(
            text_config=text,
            vision_config=vision,
            image_token_id=picture,
            video_token_id=video,
            vision_start_token_id=start,
            vision_end_token_id=stop,
            tie_word_embeddings=False,
        )
