"""Repairs of two faults of verl 0.9.1 that show with pictures. They take effect in workers, which import ``losses``."""

from __future__ import annotations

from typing import Any

import verl.models.transformers.qwen2_vl as qwen2_vl
import verl.workers.engine.base
import verl.workers.engine_workers
from tensordict import TensorDict
from torch import Tensor
from verl.utils.tensordict_utils import nested_tensor_from_tensor_list
from verl.utils.transformers_compat import unpack_visual_output

_embed = qwen2_vl._get_input_embeds


def restore_positions(data: TensorDict) -> None:
    """Make ``data["position_ids"]`` ragged in the lengths of transitions again.

    With pictures they are (4, length) for each transition, and lose their ragged axis on the way between processes.
    Where all lengths are equal, they arrive ragged in the axis of 4, which verl does not notice.
    """
    positions = data["position_ids"] if "position_ids" in data.keys() else None  # noqa: SIM118 (a TensorDict)
    if positions is None or not positions.is_nested or positions.dim() != 3:
        return
    values, offsets = positions.values(), positions.offsets()
    if values.shape[0] == int(offsets[-1]):
        rows = [values[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist())]
        data["position_ids"] = nested_tensor_from_tensor_list(rows, ragged_idx=2)
    else:
        positions._ragged_idx = 2


def embed(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    pixel_values: Tensor | None = None,
    pixel_values_videos: Tensor | None = None,
    *grids: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Return embeddings and mask as verl does, also for a micro-batch without pictures, such as one of padding rows.

    There, with transformers 5, verl takes the vision tower's output for a tensor. The tower runs on a picture of zeros,
    whose features count 0, so that all ranks gather its weights together.
    """
    if pixel_values is not None or pixel_values_videos is not None:
        return _embed(model, input_ids, attention_mask, pixel_values, pixel_values_videos, *grids)
    embedded = model.get_input_embeddings()(input_ids)
    vision = model.config.vision_config
    side = 2 * vision.spatial_merge_size
    size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    features, _ = unpack_visual_output(
        model.visual(embedded.new_zeros(side * side, size), grid_thw=input_ids.new_tensor([[1, side, side]]))
    )
    return embedded + 0.0 * features.mean(), attention_mask


qwen2_vl._get_input_embeds = embed
verl.workers.engine.base.maybe_fix_3d_position_ids = restore_positions
verl.workers.engine_workers.maybe_fix_3d_position_ids = restore_positions
