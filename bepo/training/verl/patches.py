"""All that this project replaces in verl, read against the version that ``machine.NEEDED`` names.

Each of verl's processes imports this file while it imports verl (``machine.environment``): what is replaced in all of
them stands first. ``patch_training`` is for the processes that train a policy, where ``losses`` calls it.

``tests/verl/test_patches.py`` lists what is replaced here, and what else the project uses of verl beyond its public
interface, and names each function that another version of verl has changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
import verl.utils.model
from ray.runtime_context import RuntimeContext
from transformers import AutoModelForTokenClassification

from bepo.training.verl.lifetime import MARK

if TYPE_CHECKING:
    from tensordict import TensorDict
    from torch import Tensor, nn

NO_LABEL = -100  # of a token whose prediction nobody reads

_job_id = RuntimeContext.get_job_id


def job_id(context: RuntimeContext) -> str:
    """Return Ray's id of the job, and the engine's mark.

    verl names the socket through which vLLM is sent weights by this id, in a folder of the whole machine. Every Ray of
    one run gives its job the same id, so the sockets of two runs would be one, and both would wait for ever.
    """
    mark = os.environ.get(MARK)
    return f"{_job_id(context)}-{mark}" if mark else _job_id(context)


RuntimeContext.get_job_id = job_id


def load_critic(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> nn.Module:
    """Load a critic with the attention that its config asks for; verl's own takes FlashAttention, whatever it says."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=model_config._attn_implementation,
        trust_remote_code=trust_remote_code,
    )


verl.utils.model.load_valuehead_model = load_critic


def patch_episodes() -> None:
    """Let a process that plays episodes store each picture once."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

    if "pictures" not in _theirs:
        _theirs["pictures"] = AgentLoopWorker._compute_multi_modal_inputs
        AgentLoopWorker._compute_multi_modal_inputs = store_pictures


def patch_training() -> None:
    """Repair what fails or wastes in a process that trains a policy.

    That is the head of fused kernels, logits of prompts, a copy of the policy in every checkpoint, and pictures: where
    they are stored, and two faults.
    """
    import verl.models.transformers.qwen2_vl as qwen2_vl
    import verl.utils.fsdp_utils
    import verl.workers.engine.base
    import verl.workers.engine.fsdp.transformer_impl as fsdp
    import verl.workers.engine_workers
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
    from verl.utils.experimental.torch_functional import FusedLinearForPPO

    if "embed" in _theirs:
        return
    _theirs.update(embed=qwen2_vl._get_input_embeds, targets=verl.utils.fsdp_utils._select_fsdp2_wrap_targets)
    _theirs.update(extract=fsdp.extract_multi_modal_inputs, inputs=fsdp.FSDPEngineWithLMHead.prepare_model_inputs)
    _theirs.update(head=FusedLinearForPPO.forward)
    fsdp.extract_multi_modal_inputs = extract_pictures
    fsdp.FSDPEngineWithLMHead.prepare_model_inputs = label_responses
    FusedLinearForPPO.forward = head_of_labelled
    FSDPCheckpointManager.should_save_hf_model = property(saves_policy)
    verl.utils.fsdp_utils._select_fsdp2_wrap_targets = wrap_targets
    qwen2_vl._get_input_embeds = embed
    verl.workers.engine.base.maybe_fix_3d_position_ids = restore_positions
    verl.workers.engine_workers.maybe_fix_3d_position_ids = restore_positions


_theirs: dict[str, Any] = {}  # verl's own functions, once they are replaced


def wrap_targets(model: nn.Module, kinds: list[str]) -> list[nn.Module]:
    """Return the modules that FSDP2 shards one by one, as verl does, but for a language model's head.

    verl's fused kernels read the head's weight without calling the head, so nothing would gather it: it belongs to the
    whole model's own shard, which is gathered while the model is called. Heads tied to the embedding are already there.
    """
    head = getattr(model, "lm_head", None)
    return [module for module in _theirs["targets"](model, kinds) if module is not head]


def label_responses(engine: Any, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return verl's inputs of the model, where fused kernels are told which tokens are no response.

    Their labels become ``NO_LABEL``. verl reads the log-probabilities of responses only.
    """
    inputs, output_args = _theirs["inputs"](engine, micro_batch)
    if not inputs.get("return_dict"):  # the mark of fused kernels: a critic has none
        return inputs, output_args
    ids = inputs["input_ids"]
    labels = inputs["shift_labels"] if "shift_labels" in inputs else ids.roll(-1, -1)
    predicts = before_responses(micro_batch["input_ids"].offsets(), micro_batch["responses"].offsets().diff())
    if "shift_labels" not in inputs:  # padded on the right: (b, length)
        rows = torch.zeros_like(ids, dtype=torch.bool)
        rows[inputs["attention_mask"].bool()] = predicts
        predicts = rows
    if labels.numel() == predicts.numel():  # or the packed tokens are split among ranks
        inputs["shift_labels"] = labels.masked_fill(~predicts.view_as(labels), NO_LABEL)
    return inputs, output_args


def before_responses(offsets: Tensor, response_length: Tensor) -> Tensor:
    """Return which tokens stand just before one of a response, (tokens,) bool.

    The sequences lie end to end and begin at ``offsets`` (b + 1,); each ends with its response, of
    ``response_length`` (b,) tokens.
    """
    lengths = offsets.diff()
    end = offsets[1:].repeat_interleave(lengths)
    to_end = end - torch.arange(len(end), device=end.device)  # 1 at the last token
    return (to_end > 1) & (to_end <= response_length.repeat_interleave(lengths) + 1)


def head_of_labelled(
    kernel: Any, hidden_states: Tensor, vocab_weights: Tensor, input_ids: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies of labels as verl's fused kernels do, and 0 where there is ``NO_LABEL``.

    Logits of those are not computed; there must be one label at least.
    """
    labelled = input_ids != NO_LABEL
    found = _theirs["head"](kernel, hidden_states[labelled], vocab_weights, input_ids[labelled], temperature)
    place = labelled.nonzero(as_tuple=True)
    log_probs, entropy = (x.new_zeros(labelled.shape).index_put(place, x) for x in found)
    return log_probs, entropy


def policy_after(update: int) -> str:
    """Return the word of verl's ``save_contents`` for a copy of the policy in the checkpoint after an update alone."""
    return f"hf_model after {update}"


def saves_policy(manager: Any) -> bool:
    """Return whether the checkpoint that is being written has a copy of the policy for transformers."""
    return policy_after(manager.previous_global_step) in manager.checkpoint_save_contents


def store_pictures(worker: Any, output: Any, input_ids: Tensor) -> dict[str, Any]:
    """Return what verl stores of a transition's picture, with its digest instead of its pixel values."""
    from bepo.training.verl.pictures import store

    return store(_theirs["pictures"](worker, output, input_ids))


def extract_pictures(rows: Any, indices: list[int] | None = None) -> dict[str, Any]:
    """Return the pictures of a micro-batch as verl does, from where ``store_pictures`` has put them."""
    from verl.utils.tensordict_utils import unwrap_non_tensor_data

    from bepo.training.verl.pictures import restore

    return _theirs["extract"](restore(map(unwrap_non_tensor_data, rows)), indices)


def restore_positions(data: TensorDict) -> None:
    """Make ``data["position_ids"]`` ragged in the lengths of transitions again.

    With pictures they are (4, length) for each transition, and lose their ragged axis on the way between processes.
    Where all lengths are equal, they arrive ragged in the axis of 4, which verl does not notice.
    """
    from verl.utils.tensordict_utils import nested_tensor_from_tensor_list

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
    from verl.utils.transformers_compat import unpack_visual_output

    if pixel_values is not None or pixel_values_videos is not None:
        return _theirs["embed"](model, input_ids, attention_mask, pixel_values, pixel_values_videos, *grids)
    embedded = model.get_input_embeddings()(input_ids)
    vision = model.config.vision_config
    side = 2 * vision.spatial_merge_size
    size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    features, _ = unpack_visual_output(
        model.visual(embedded.new_zeros(side * side, size), grid_thw=input_ids.new_tensor([[1, side, side]]))
    )
    return embedded + 0.0 * features.mean(), attention_mask
