"""A tiny random model in the form of SmolLM2: a Llama with shared key-value heads, tied embeddings and ChatML."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CHAT_ML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful AI assistant.<|im_end|>\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_pairs(end: str = "<|im_end|>") -> transformers.PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer with ChatML; ``end`` is its end token."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    texts = [
        "up down left right",
        "Push every box onto a target. Answer with one action.",
        "go to take the look # _ O X",
    ]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts * 9, trainers.BpeTrainer(vocab_size=330, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, unk_token="<|endoftext|>")
    tokenizer.chat_template = CHAT_ML
    return tokenizer


def save_tiny(folder: Path, architecture: str = "llama", layers: int = 3, **config: object) -> Path:
    """Write a checkpoint of a tiny random model into a folder, and return the folder."""
    tokenizer = byte_pairs()
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "initializer_range": 0.2,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": 0,
        "bos_token_id": 1,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(architecture, **settings | config)
        )
        for parameter in model.parameters():
            if parameter.ndim == 1:  # weights of norms and biases are drawn as 1 and 0
                parameter.data.add_(0.3 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
