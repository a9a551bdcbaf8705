"""GGUF files become checkpoints in the cache: once, complete, with the tokens that the chat template uses."""

import json
import stat

import gguf
import numpy as np
import pytest
import transformers

from bepo.core.errors import UserError
from bepo.envs.sokoban import Sokoban
from bepo.policies.lm.gguf import converted
from bepo.policies.pretrained import Pretrained
from bepo.rollouts.agent import Agent
from bepo.rollouts.collect import Sampling
from bepo.store.files import digest_of_file
from tests.pretrained import CHAT_ML, byte_pairs

WIDTH, HEADS, SHARED, DEEP, INNER, LAYERS = 32, 4, 2, 8, 48, 2


def write_gguf(path, tied=True):
    """Write a tiny Llama as llama.cpp would; its end token is the one that begins a message, as in SmolLM2's file."""
    tokenizer = json.loads(byte_pairs().backend_tokenizer.to_str())
    words = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(SHARED)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(DEEP)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([3 if word.startswith("<|") else 1 for word in words])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(0)
    writer.add_chat_template(CHAT_ML)
    rng = np.random.default_rng(0)

    def add(name, *shape):
        writer.add_tensor(name, rng.normal(size=shape).astype(np.float32) * (0.2 if len(shape) > 1 else 1))

    add("token_embd.weight", len(words), WIDTH)
    add("output_norm.weight", WIDTH)
    if not tied:
        add("output.weight", len(words), WIDTH)
    for i in range(LAYERS):
        add(f"blk.{i}.attn_norm.weight", WIDTH)
        add(f"blk.{i}.ffn_norm.weight", WIDTH)
        add(f"blk.{i}.attn_q.weight", HEADS * DEEP, WIDTH)
        add(f"blk.{i}.attn_k.weight", SHARED * DEEP, WIDTH)
        add(f"blk.{i}.attn_v.weight", SHARED * DEEP, WIDTH)
        add(f"blk.{i}.attn_output.weight", WIDTH, HEADS * DEEP)
        add(f"blk.{i}.ffn_gate.weight", INNER, WIDTH)
        add(f"blk.{i}.ffn_up.weight", INNER, WIDTH)
        add(f"blk.{i}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path / "cache"))
    converted.cache_clear()
    return write_gguf(tmp_path / "model.gguf")


def test_a_policy_from_a_gguf_file(file):
    settings = Pretrained(path=str(file), max_response_length=4)
    policy = settings.build(Sokoban(), Agent(style="brief"), "cpu")
    (sample,) = policy.sample(["Push."], [("up",)], Sampling(), 0)
    assert policy.tokenizer.eos_token == "<|im_end|>" and policy.tokenizer.pad_token == "<|endoftext|>"
    assert policy.end_ids == {2} and policy.pad_id == 0 and len(sample.response_ids) <= 4
    assert settings.weights_digest == digest_of_file(file)
    assert policy.model.get_input_embeddings().weight is policy.model.get_output_embeddings().weight


def test_it_is_converted_once_and_readable_by_others(file):
    folder = converted(file)
    made = (folder / "model.safetensors").stat()
    assert made.st_mode & stat.S_IRUSR and made.st_mode & 0o044 == folder.stat().st_mode & 0o044
    converted.cache_clear()
    assert converted(file) == folder and (folder / "model.safetensors").stat().st_mtime_ns == made.st_mtime_ns


def test_a_damaged_checkpoint_is_made_again(file):
    weights = converted(file) / "model.safetensors"
    right = weights.read_bytes()
    weights.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    (weights.parent.parent / f"{weights.parent.name}.part").mkdir()  # what a kill left
    converted.cache_clear()
    assert (converted(file) / "model.safetensors").read_bytes() == right


def test_a_head_of_its_own_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path / "cache"))
    model = transformers.AutoModelForCausalLM.from_pretrained(converted(write_gguf(tmp_path / "own.gguf", tied=False)))
    assert not np.allclose(model.lm_head.weight.detach(), model.model.embed_tokens.weight.detach())


def test_another_digest_another_file_and_no_file_are_refused(file, tmp_path):
    with pytest.raises(UserError, match=r"model\.gguf: its SHA-256 is \w+, not 00"):
        converted(file, "00")
    (tmp_path / "text.gguf").write_bytes(b"no weights")
    with pytest.raises(UserError, match=r"text\.gguf: transformers cannot read this GGUF file"):
        converted(tmp_path / "text.gguf")
    with pytest.raises(UserError, match="no such GGUF file"):
        converted(tmp_path / "none.gguf")
