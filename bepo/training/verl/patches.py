"""All functions of verl that this project replaces, for the version in ``machine.NEEDED``.

Each of verl's processes imports this file while it imports verl (``machine.environment``). The first replacements are
for all processes. ``patch_training`` is for the processes that train a policy; ``losses`` calls it.

``tests/verl/test_patches.py`` lists the replaced functions and all other uses of verl beyond its public interface. It
names each function that another version of verl has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import verl.utils.model
from ray.runtime_context import RuntimeContext
from transformers import AutoModelForTokenClassification

from bepo.training.verl.lifetime import MARK

if TYPE_CHECKING:
    from tensordict import TensorDict
    from torch import Tensor, nn

NO_LABEL = -100  # label of tokens whose prediction is not used

_job_id = RuntimeContext.get_job_id


def job_id(context: RuntimeContext) -> str:
    """Return Ray's ID of the job, and the engine's mark.

    verl sends weights to vLLM through a socket with this ID as its name, in a folder for the whole machine. Jobs of
    different Ray instances have the same ID, so two runs would share one socket, and both would wait for ever.
    """
    mark = os.environ.get(MARK)
    return f"{_job_id(context)}-{mark}" if mark else _job_id(context)


RuntimeContext.get_job_id = job_id


def load_critic(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> nn.Module:
    """Load a critic with the attention of its config. verl's own function always uses FlashAttention."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=model_config._attn_implementation,
        trust_remote_code=trust_remote_code,
    )


verl.utils.model.load_valuehead_model = load_critic


def patch_episodes() -> None:
    """Let a process that runs episodes store each picture once."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

    if "pictures" not in _theirs:
        _theirs["pictures"] = AgentLoopWorker._compute_multi_modal_inputs
        AgentLoopWorker._compute_multi_modal_inputs = store_pictures


def patch_training() -> None:
    """Replace the functions of verl that fail or waste resources in a process that trains a policy.

    They concern fused kernels (the head, and logits of prompts), copies of the policy in checkpoints (when, and with
    LoRA), the precision of LoRA's weights in vLLM, a frozen vision tower, and pictures (their storage, and two faults).
    """
    import verl.models.transformers.qwen2_vl as qwen2_vl
    import verl.utils.checkpoint.fsdp_checkpoint_manager as checkpoints
    import verl.utils.fsdp_utils
    import verl.workers.engine.base
    import verl.workers.engine.fsdp.transformer_impl as fsdp
    import verl.workers.engine_workers
    from verl.utils.experimental.torch_functional import FusedLinearForPPO

    if "embed" in _theirs:
        return
    _theirs.update(embed=qwen2_vl._get_input_embeds, targets=verl.utils.fsdp_utils._select_fsdp2_wrap_targets)
    _theirs.update(extract=fsdp.extract_multi_modal_inputs, inputs=fsdp.FSDPEngineWithLMHead.prepare_model_inputs)
    _theirs.update(head=FusedLinearForPPO.forward, build=fsdp.FSDPEngine._build_module)
    fsdp.FSDPEngine._build_module = build_module
    fsdp.extract_multi_modal_inputs = extract_pictures
    fsdp.FSDPEngineWithLMHead.prepare_model_inputs = label_responses
    fsdp.FSDPEngine._merged_lora_per_tensor_param = merged_weights
    FusedLinearForPPO.forward = head_of_labelled
    _theirs.update(state=checkpoints.get_fsdp_full_state_dict)
    checkpoints.get_fsdp_full_state_dict = merged_state
    checkpoints.FSDPCheckpointManager.should_save_hf_model = property(saves_policy)
    verl.utils.fsdp_utils._select_fsdp2_wrap_targets = wrap_targets
    qwen2_vl._get_input_embeds = embed
    verl.workers.engine.base.maybe_fix_3d_position_ids = restore_positions
    verl.workers.engine_workers.maybe_fix_3d_position_ids = restore_positions


_theirs: dict[str, Any] = {}  # verl's original functions, after their replacement


def build_module(engine: Any) -> nn.Module:
    """Return verl's model, with a frozen vision tower if ``freeze_vision`` of its config says so.

    verl has a setting for it, ``freeze_vision_tower``, that its engines do not read.
    """
    module = _theirs["build"](engine)
    if getattr(module.config, "freeze_vision", False):
        module.base_model.visual.requires_grad_(False)
    return module


def wrap_targets(model: nn.Module, kinds: list[str]) -> list[nn.Module]:
    """Return verl's list of modules that FSDP2 shards one by one, without a language model's head.

    verl's fused kernels read the head's weight without calling the head, so FSDP would not gather it. As part of the
    whole model's shard it is gathered when the model is called. Heads tied to the embedding are already there.
    """
    head = getattr(model, "lm_head", None)
    return [module for module in _theirs["targets"](model, kinds) if module is not head]


def label_responses(engine: Any, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return verl's inputs of the model, with the label ``NO_LABEL`` for all tokens that are not response tokens.

    verl reads only the log-probabilities of responses, so fused kernels can skip these labels.
    """
    inputs, output_args = _theirs["inputs"](engine, micro_batch)
    if not inputs.get("return_dict"):  # only fused kernels set it; a critic does not use them
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
    """Return the mask of the tokens directly before a response token, (tokens,) bool.

    The sequences are concatenated and begin at ``offsets`` (b + 1,). Each ends with its response of ``response_length``
    (b,) tokens.
    """
    lengths = offsets.diff()
    end = offsets[1:].repeat_interleave(lengths)
    to_end = end - torch.arange(len(end), device=end.device)  # 1 at the last token
    return (to_end > 1) & (to_end <= response_length.repeat_interleave(lengths) + 1)


def head_of_labelled(
    kernel: Any, hidden_states: Tensor, vocab_weights: Tensor, input_ids: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies of labels like verl's fused kernels, and 0 for ``NO_LABEL``.

    Logits are computed only for labels; there must be at least one label.
    """
    labelled = input_ids != NO_LABEL
    scored = _theirs["head"](kernel, hidden_states[labelled], vocab_weights, input_ids[labelled], temperature)
    place = labelled.nonzero(as_tuple=True)
    log_probs, entropy = (x.new_zeros(labelled.shape).index_put(place, x) for x in scored)
    return log_probs, entropy


def policy_after(update: int) -> str:
    """Return the word in verl's ``save_contents`` for a copy of the policy only in the checkpoint after ``update``."""
    return f"hf_model after {update}"


def saves_policy(manager: Any) -> bool:
    """Return whether the current checkpoint gets a copy of the policy for transformers."""
    return policy_after(manager.previous_global_step) in manager.checkpoint_save_contents


def merged_state(model: Any, *arguments: Any, **options: Any) -> dict[str, Tensor]:
    """Return verl's state of a whole model, with LoRA adapters added to the weights under the names of the base model.

    verl's own copy of the policy would have the names of the adapters, which transformers cannot load.
    """
    from verl.utils.fsdp_utils import merged_lora_context, normalize_peft_param_name

    if not hasattr(model, "peft_config"):
        return _theirs["state"](model, *arguments, **options)
    with merged_lora_context(model, backup_adapters=True):
        state = normalize_peft_param_name(_theirs["state"](model, *arguments, **options))
        return {name: value.detach().clone() for name, value in state.items()}  # the live weights are restored now


def merged_weights(engine: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield names and weights for vLLM with LoRA adapters added to them, in the precision of training.

    verl rounds them to bfloat16, also for a vLLM that computes in float32. vLLM itself converts them to its own type.
    """
    from torch.distributed.tensor import DTensor
    from verl.utils.device import get_device_id
    from verl.utils.fsdp_utils import merged_lora_context, normalize_peft_param_name, offload_fsdp_model_to_cpu
    from verl.utils.model import convert_weight_keys

    model, device = engine.module, get_device_id()
    try:
        with merged_lora_context(model, backup_adapters=True):  # the weights are the merged ones until it ends
            state = normalize_peft_param_name(model.state_dict())
            for name, weight in convert_weight_keys(state, getattr(model, "_fsdp_wrapped_module", model)).items():
                whole: Any = weight.to(device, non_blocking=True) if isinstance(weight, DTensor) else weight
                yield name, (whole.full_tensor() if isinstance(weight, DTensor) else whole).detach().clone()
    finally:
        if engine._is_offload_param:
            offload_fsdp_model_to_cpu(model)


def store_pictures(worker: Any, output: Any, input_ids: Tensor) -> dict[str, Any]:
    """Return verl's data of a transition's picture, with a digest instead of the pixel values."""
    from bepo.training.verl.pictures import store

    return store(_theirs["pictures"](worker, output, input_ids))


def extract_pictures(rows: Any, indices: list[int] | None = None) -> dict[str, Any]:
    """Return the pictures of a micro-batch in verl's format, from the storage of ``store_pictures``."""
    from verl.utils.tensordict_utils import unwrap_non_tensor_data

    from bepo.training.verl.pictures import restore

    return _theirs["extract"](restore(map(unwrap_non_tensor_data, rows)), indices)


def restore_positions(data: TensorDict) -> None:
    """Restore the ragged axis of ``data["position_ids"]``, the lengths of transitions.

    With pictures they have the shape (4, length) for each transition, and lose the ragged axis between processes. If
    all lengths are equal, they arrive with the axis of 4 as the ragged one, and verl does not notice it.
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
    """Return embeddings and mask like verl, also for a micro-batch without pictures, such as one of padding rows.

    For such a micro-batch the vision tower runs on a picture of zeros, with its features multiplied by 0, so that all
    ranks gather its weights together. verl's own code fails here with transformers 5: it takes the tower's output for a
    tensor.
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
