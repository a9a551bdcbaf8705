"""The chat templates of the paper's models: what vLLM is given is what the policy reads, and what the model expects.

The checkpoints are not on this machine. The tokenizer is of transformers' class for Qwen, with single bytes for words.
The template is **reconstructed**: written for these tests from what is known of the three models' own, for messages
of a user without tools. ``expected`` is what the models' own write of one such message.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer
from verl.utils import hf_processor, hf_tokenizer

from bepo.envs.sokoban import Sokoban
from bepo.policies.lm.vision_language import VisionLanguageModel
from bepo.policies.pretrained import Pretrained
from bepo.policies.pretrained_vl import PretrainedVL
from bepo.policies.tiny_vl import MARKERS, TinyVL
from bepo.rollouts.agent import Agent
from bepo.training.verl.agent_loop import StepLoop
from bepo.training.verl.episodes import Prompt

AGENT = Agent(style="compact", history_length=0)
SYSTEM = {
    "Qwen2.5": "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    "Qwen3": "",
    "Qwen2.5-VL": "You are a helpful assistant.",
}
TEMPLATE = """
{%- set default = 'SYSTEM' %}
{%- if default and messages[0].role != 'system' %}{{ '<|im_start|>system\\n' + default + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{ message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}{{ part.text }}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def expected(model: str, message: str) -> str:
    """Return what the model's own chat template writes of one user message."""
    system = f"<|im_start|>system\n{SYSTEM[model]}<|im_end|>\n" if SYSTEM[model] else ""
    return f"{system}<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n"


def tokenizer_of(model: str) -> Qwen2Tokenizer:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *MARKERS]
    tokenizer = Qwen2Tokenizer(
        vocab={character: i for i, character in enumerate(sorted(ByteLevel.alphabet()))},
        merges=[],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=special,
    )
    tokenizer.chat_template = TEMPLATE.replace("SYSTEM", SYSTEM[model])
    return tokenizer


def loop_of(folder, policy) -> StepLoop:
    rollout = SimpleNamespace(prompt_length=policy.max_prompt_length)
    actor = SimpleNamespace(rollout=rollout, model=SimpleNamespace(path=str(folder)))
    config = SimpleNamespace(config=SimpleNamespace(actor_rollout_ref=actor))
    return StepLoop(config, None, hf_tokenizer(str(folder)), hf_processor(str(folder)))


@pytest.mark.parametrize("model", ["Qwen2.5", "Qwen3"])
def test_a_prompt(model, tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=300, num_key_value_heads=2, **sizes)).save_pretrained(tmp_path)
    tokenizer_of(model).save_pretrained(tmp_path)
    policy = Pretrained(path=str(tmp_path), max_prompt_length=400).build(Sokoban(), AGENT, "cpu")
    loop, text = loop_of(tmp_path, policy), "## _X\n  Go to the café. 箱\n\nYour action: "
    ids = loop._encode(Prompt(text, None), {})
    assert ids == policy.encode(text)
    assert loop.tokenizer.decode(ids) == expected(model, text)
    assert policy.end_id == loop.tokenizer.eos_token_id == loop.tokenizer.convert_tokens_to_ids("<|im_end|>")


def test_a_prompt_with_a_picture(tmp_path):
    settings, tokenizer = TinyVL(warm_start=None, num_attention_heads=4), tokenizer_of("Qwen2.5-VL")
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(settings._architecture(tokenizer))
    VisionLanguageModel(model, tokenizer, settings._image_processor(), 400, 2, False, "cpu").save(tmp_path)
    policy = PretrainedVL(path=str(tmp_path), min_pixels=1, max_prompt_length=400).build(Sokoban(), AGENT, "cpu")
    loop, text = loop_of(tmp_path, policy), "The board:\n<image>\nYour action: "
    image = np.random.default_rng(0).integers(256, size=(96, 96, 3), dtype=np.uint8)
    ids = loop._encode(Prompt(text, image), {"images": [loop._picture(image, 1)]})
    assert ids == policy.encode(text, image)
    shown = loop.tokenizer.decode(ids)
    n_tokens = shown.count("<|image_pad|>")
    assert n_tokens > 1  # one for each merged patch, where the template has one
    picture = f"<|vision_start|>{'<|image_pad|>' * n_tokens}<|vision_end|>"
    assert shown == expected("Qwen2.5-VL", text.replace("<image>", picture))
    plain = "No picture here."
    assert loop._encode(Prompt(plain, None), {}) == policy.encode(plain)
