"""A vision-language model of the Qwen2-VL family as a policy: a prompt may show one picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from bepo.envs import IMAGE
from bepo.policies.language_model import LanguageModel
from bepo.tokens import distinct

_KEPT = 2048  # pictures whose pixel values stay in memory


class VisionLanguageModel(LanguageModel):
    """The picture takes the place of ``<image>`` in the prompt.

    Pixel values, image tokens and three-dimensional positions (m-rope) are transformers' own. A picture is processed
    once and kept; of a batch, each distinct picture goes through the vision tower once.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        image_processor: Qwen2VLImageProcessorPil,
        max_prompt: int,
        max_response: int,
        constrained: bool = False,
        device: str = "cpu",
    ) -> None:
        super().__init__(model, tokenizer, max_prompt, max_response, constrained, device)
        self.image_processor = image_processor
        self.image_token = model.config.image_token_id
        self._pixels = lru_cache(maxsize=_KEPT)(self._process)

    def _tokenize(self, prompt: str, image: np.ndarray | None) -> list[int]:
        if image is None:
            return self._chat([{"type": "text", "text": prompt}])
        before, _, after = prompt.partition(IMAGE)
        ids = self._chat([{"type": "text", "text": before}, {"type": "image"}, {"type": "text", "text": after}])
        at, (_, grid) = ids.index(self.image_token), self._pixels(image.tobytes(), image.shape)
        return ids[:at] + [self.image_token] * self._n_tokens(grid) + ids[at + 1 :]

    def _process(self, image: bytes, shape: tuple[int, ...]) -> tuple[Float[Tensor, "p d"], Int[Tensor, " 3"]]:
        """Pixel values of a picture's patches, and their grid (time, height, width)."""
        picture = np.frombuffer(image, np.uint8).reshape(shape)
        out = self.image_processor(images=[picture], input_data_format="channels_last", return_tensors="pt")
        return out["pixel_values"], out["image_grid_thw"][0]

    def _n_tokens(self, grid: Int[Tensor, " 3"]) -> int:
        return int(grid.prod()) // self.image_processor.merge_size**2

    def _inputs(
        self,
        ids: Int[Tensor, "b t"],
        mask: Int[Tensor, "b t"],
        images: Sequence[np.ndarray | None],
        backbone: PreTrainedModel,
    ) -> dict[str, Tensor]:
        """Embeddings with the features of the pictures in their places, and m-rope positions."""
        index, pictures = distinct(images)
        if not len(pictures):
            return super()._inputs(ids, mask, images, backbone)
        pixels, grids = zip(*(self._pixels(p.tobytes(), p.shape) for p in pictures))
        grid = torch.stack(grids).to(self.device)
        with self.autocast:
            features = backbone.get_image_features(torch.cat(pixels).to(self.device), grid).pooler_output
        which = torch.from_numpy(index).long().to(self.device)
        shown = self._image_places(ids, which >= 0, self._n_tokens(grids[0]))
        which = which[which >= 0]
        embedded = backbone.get_input_embeddings()(ids)
        features = torch.stack(features)[which].to(embedded.dtype)
        return {
            "inputs_embeds": embedded.masked_scatter(shown.unsqueeze(-1), features),
            "attention_mask": mask,
            "position_ids": _positions(mask + shown.long(), grid[:1], backbone),
        }

    def _image_places(self, ids: Int[Tensor, "b t"], has_image: Bool[Tensor, " b"], n: int) -> Bool[Tensor, "b t"]:
        """The first ``n`` image tokens of each row: a response may hold more of them, which stand for nothing."""
        found = (ids == self.image_token) & has_image.unsqueeze(1)
        return found & (found.cumsum(1) <= n)

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.image_processor.save_pretrained(folder)


def _positions(layout: Int[Tensor, "b t"], grid: Int[Tensor, "1 3"], backbone: PreTrainedModel) -> Int[Tensor, "3 b t"]:
    """m-rope positions of rows of padding (0), text (1) and picture (2), computed once for each layout that occurs."""
    layouts, row = layout.unique(dim=0, return_inverse=True)
    shown = layouts == 2
    grids = grid.expand(int(shown.any(1).sum()), -1)
    found, _ = backbone.get_rope_index(layouts, shown.int(), image_grid_thw=grids, attention_mask=(layouts > 0).long())
    return found[:, row]
