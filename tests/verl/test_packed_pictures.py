"""Transitions with pictures, packed end to end as on GPUs: what the model computes is what it computes of each alone.

verl packs pictures for FlashAttention alone, which needs a GPU: a loop over the packed sequences takes its place.
"""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
import verl.models.transformers.qwen2_vl as qwen2_vl
from transformers.integrations import flash_attention
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from verl.models.transformers.monkey_patch import apply_monkey_patch

from bepo.envs.sokoban import Sokoban
from bepo.policies.tiny_vl import TinyVL
from bepo.rollouts.agent import Agent
from bepo.rollouts.task_sets import task_set

AGENT = Agent(style="compact", history_length=0)
PATCHED = [(qwen2_5, f"Qwen2_5_VL{kind}") for kind in ("Model", "ForConditionalGeneration", "Attention")]
PATCHED += [(qwen2, f"Qwen2VL{kind}") for kind in ("Model", "ForConditionalGeneration", "Attention")]


def attend(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, softmax_scale=None, **unused):
    """Attend within each packed sequence: what ``flash_attn_varlen_func`` computes, (tokens, heads, size)."""
    assert causal and torch.equal(cu_seqlens_q, cu_seqlens_k)
    parts = []
    for a, b in zip(cu_seqlens_q[:-1].tolist(), cu_seqlens_q[1:].tolist()):
        heads = (x[a:b].transpose(0, 1) for x in (q, k, v))
        parts.append(F.scaled_dot_product_attention(*heads, is_causal=True, scale=softmax_scale).transpose(0, 1))
    return torch.cat(parts)


@pytest.fixture
def packed(monkeypatch):
    """Let verl patch a model for packed sequences, and take the patches back after the test."""
    for module, name in PATCHED:
        monkeypatch.setattr(getattr(module, name), "forward", getattr(module, name).forward)
    monkeypatch.setattr(flash_attention, "_flash_attention_forward", flash_attention._flash_attention_forward)
    monkeypatch.setattr(qwen2_vl, "flash_attn_varlen_func", attend, raising=False)
    for name in ("_flash_supports_window_size", "_flash_supports_deterministic", "_flash_use_top_left_mask"):
        monkeypatch.setattr(qwen2_vl, name, False, raising=False)
    # FlashAttention knows no float32: verl makes it bfloat16 first
    monkeypatch.setattr(qwen2_vl, "fa_peft_integration_check", lambda q, k, v, **unused: (q, k, v))
    return partial(apply_monkey_patch, use_remove_padding=True, fused_kernels_backend="torch")


def test_packed_transitions_are_those_by_themselves(packed):
    env = Sokoban(observation="rgb")
    settings = TinyVL(warm_start=None, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    policy = settings.build(env, AGENT, "cpu")
    model = policy.model.eval()
    episodes = env.start(task_set(env, "train", 3).tasks)
    rows, expected = [], []
    for i, observation in enumerate(episodes.observations):
        text = AGENT.prompt(env.prompt, episodes.instructions[i], observation, []) + " up" * i
        ids = torch.tensor([policy.encode(text, observation.image)])
        pixels = dict(policy.image_processor(images=[observation.image], return_tensors="pt"))
        kinds = (ids == model.config.image_token_id).long()
        positions, _ = model.model.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=pixels["image_grid_thw"])
        places = torch.cat([torch.arange(ids.shape[1]).expand(1, 1, -1), positions])  # verl's: of the text, then m-rope
        rows.append((ids, places, pixels))
        with torch.no_grad():
            expected.append(model(input_ids=ids, position_ids=places, mm_token_type_ids=kinds, **pixels).logits[0])
    assert len({ids.shape[1] for ids, _, _ in rows}) == 3
    logits = torch.cat(expected)
    inputs = {name: torch.cat([pixels[name] for _, _, pixels in rows]) for name in rows[0][2]}
    inputs["input_ids"] = torch.cat([ids for ids, _, _ in rows], 1)
    inputs["position_ids"] = torch.cat([places for _, places, _ in rows], 2)
    packed(model)
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs, attention_mask=None).logits[0], logits, rtol=0, atol=1e-5)
    packed(model, use_fused_kernels=True)
    labels = inputs["input_ids"].roll(-1, 1)
    with torch.no_grad():
        fused = model(**inputs, attention_mask=None, shift_labels=labels, temperature=1.0, return_dict=True)
    log_probs = logits.log_softmax(-1)
    torch.testing.assert_close(fused.log_probs, log_probs.gather(-1, labels.T).T, rtol=0, atol=1e-5)
    torch.testing.assert_close(fused.entropy[0], -(log_probs.exp() * log_probs).sum(-1), rtol=0, atol=1e-5)
