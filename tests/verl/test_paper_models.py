"""The paper's models as verl trains them, with real configs but without weights, on the meta device."""

import re
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, Qwen2_5_VLConfig, Qwen2Config, Qwen3Config

ROOT = Path(__file__).parents[2]
COMMON = {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "architectures": ["model"]}
VL = {"mrope_section": [16, 24, 24], "rope_type": "default", "rope_theta": 1e6}
# config.json of each on the model hub, in billions of parameters what the hub says, and the rows of conf/hardware
MODELS = {
    "small": (
        Qwen2Config(
            **COMMON, vocab_size=151936, hidden_size=1536, num_hidden_layers=28, num_attention_heads=12,
            num_key_value_heads=2, intermediate_size=8960, max_position_embeddings=32768, tie_word_embeddings=True,
        ),
        1.54,
    ),
    "large": (
        Qwen2Config(
            **COMMON, vocab_size=152064, hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
            num_key_value_heads=4, intermediate_size=18944, max_position_embeddings=32768, tie_word_embeddings=False,
        ),
        7.62,
    ),
    "qwen3": (
        Qwen3Config(
            **COMMON, vocab_size=151936, hidden_size=2048, num_hidden_layers=28, num_attention_heads=16,
            num_key_value_heads=8, head_dim=128, intermediate_size=6144, max_position_embeddings=40960,
            tie_word_embeddings=True,
        ),
        1.72,
    ),
    "vl": (
        Qwen2_5_VLConfig(
            architectures=["Qwen2_5_VLForConditionalGeneration"],
            tie_word_embeddings=True,
            text_config={
                "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
                "num_key_value_heads": 2, "intermediate_size": 11008, "max_position_embeddings": 128000,
                "rope_parameters": VL, "tie_word_embeddings": True,
            },
            vision_config={
                "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048,
                "patch_size": 14, "spatial_merge_size": 2, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
            },
        ),
        3.75,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_paper(name):
    """Its size is what docs/gpu.md reckons with, its heads divide among the devices of a replica, and prompts fit."""
    config, billions = MODELS[name]
    text = config.get_text_config()
    auto = AutoModelForImageTextToText if name == "vl" else AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(config, dtype=torch.bfloat16)
    size = sum(p.numel() for p in model.parameters())
    assert size / 1e9 == pytest.approx(billions, abs=0.006)
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    label = {"small": "1.5B", "large": "7B", "qwen3": "Qwen3-1.7B", "vl": "VL-3B"}[name]
    (row,) = re.findall(rf"^\| {label} \| (\d+) GB \| (\d+) GB \| (\d+) GB \|$", page, re.M)
    assert [int(gigabytes) for gigabytes in row] == [round(n * size / 1e9) for n in (12, 28, 4)]
    replicas = [
        OmegaConf.load(file).get("backend") for file in (ROOT / "conf" / "hardware").glob(f"verl_*_{name}.yaml")
    ]
    for backend in filter(None, replicas):  # some rows are another's
        assert text.num_attention_heads % backend.tensor_parallel_size == 0
        assert text.num_key_value_heads % backend.tensor_parallel_size == 0
    assert text.max_position_embeddings >= 5120 + 512  # WebShop's prompts are the longest
