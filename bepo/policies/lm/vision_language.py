"""A vision-language model of the Qwen2-VL family as a policy. A prompt may show one picture.

Shapes: b transitions of t padded tokens each; I distinct pictures of q patches with d pixel values each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bepo.core.tokens import distinct
from bepo.envs import IMAGE
from bepo.policies.lm.language_model import LanguageModel

_CACHED_PICTURES = 2048  # keep the pixel values of so many pictures in memory
QwenVL = Any  # the backbone of a Qwen2-VL model; its stubs name tensor types that torch never returns


class VisionLanguageModel(LanguageModel):
    """A language model that reads pictures. The picture takes the place of ``<image>`` in the prompt.

    transformers computes pixel values, image tokens and three-dimensional positions (m-rope). A processed picture is
    cached. Each distinct picture of a batch goes through the vision tower once.
    """

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        image_processor: transformers.Qwen2VLImageProcessorPil,
        max_prompt_length: int,
        max_response_length: int,
        constrained: bool = False,
        device: str = "cpu",
    ) -> None:
        super().__init__(model, tokenizer, max_prompt_length, max_response_length, constrained, device)
        self.image_processor = image_processor
        self.image_token = model.config.image_token_id
        self._pixels = lru_cache(maxsize=_CACHED_PICTURES)(self._process)

    def _tokenize(self, prompt: str, image: np.ndarray | None) -> list[int]:
        if image is None:
            return self._chat([{"type": "text", "text": prompt}])
        before, _, after = prompt.rpartition(IMAGE)
        ids = self._chat([{"type": "text", "text": before}, {"type": "image"}, {"type": "text", "text": after}])
        place, (_, grid) = ids.index(self.image_token), self._pixels(image.tobytes(), image.shape)
        return ids[:place] + [self.image_token] * self._n_tokens(grid) + ids[place + 1 :]

    def _process(self, image: bytes, shape: tuple[int, ...]) -> tuple[Float[Tensor, "q d"], Int[Tensor, " 3"]]:
        """Return the pixel values of a picture's patches, and their numbers in time, height and width."""
        picture = np.frombuffer(image, np.uint8).reshape(shape)
        out = self.image_processor(images=[picture], input_data_format="channels_last", return_tensors="pt")
        return out["pixel_values"], out["image_grid_thw"][0]

    def _n_tokens(self, grid: Int[Tensor, " 3"]) -> int:
        """Return the number of image tokens of a picture with this grid of patches."""
        return int(grid.prod()) // self.image_processor.merge_size**2

    def inputs(
        self,
        ids: Int[Tensor, "b t"],
        mask: Int[Tensor, "b t"],
        images: Sequence[np.ndarray | None],
        backbone: QwenVL,
    ) -> dict[str, Tensor]:
        """Return embeddings with the features of pictures at their positions, the mask, and m-rope positions."""
        index, pictures = distinct(images)
        if not len(pictures):
            return super().inputs(ids, mask, images, backbone)
        pixels, grids = zip(*(self._pixels(p.tobytes(), p.shape) for p in pictures))
        grid = torch.stack(grids).to(self.device)
        with self.autocast:
            features = backbone.get_image_features(torch.cat(pixels).to(self.device), grid).pooler_output
        which = torch.from_numpy(index).long().to(self.device)
        in_picture = self._image_places(ids, which >= 0, self._n_tokens(grids[0]))
        which = which[which >= 0]
        embedded = backbone.get_input_embeddings()(ids)
        features = torch.stack(features)[which].to(embedded.dtype)
        return {
            "inputs_embeds": embedded.masked_scatter(in_picture.unsqueeze(-1), features),
            "attention_mask": mask,
            "position_ids": _positions(mask + in_picture.long(), grid[:1], backbone),
        }

    def _image_places(
        self, ids: Int[Tensor, "b t"], has_image: Bool[Tensor, " b"], n_tokens: int
    ) -> Bool[Tensor, "b t"]:
        """Return the positions of pictures: the first ``n_tokens`` image tokens of each row with a picture.

        Further image tokens, in a response, do not stand for a picture.
        """
        is_image = (ids == self.image_token) & has_image.unsqueeze(1)
        return is_image & (is_image.cumsum(1) <= n_tokens)

    def save(self, folder: Path) -> None:
        """Write a checkpoint for transformers: weights, config, tokenizer and image processor."""
        super().save(folder)
        self.image_processor.save_pretrained(folder)


def _positions(layout: Int[Tensor, "b t"], grid: Int[Tensor, "1 3"], backbone: QwenVL) -> Int[Tensor, "3 b t"]:
    """Return the m-rope positions of tokens; ``layout`` is 0 for padding, 1 for text and 2 for a picture.

    They are computed once for each distinct layout, because the rows of an environment have few layouts.
    """
    layouts, row = layout.unique(dim=0, return_inverse=True)
    in_picture = layouts == 2
    grids = grid.expand(int(in_picture.any(1).sum()), -1)
    positions, _ = backbone.get_rope_index(
        layouts, in_picture.int(), image_grid_thw=grids, attention_mask=(layouts > 0).long()
    )
    return positions[:, row]
