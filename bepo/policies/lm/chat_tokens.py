"""The end token and the padding token of a tokenizer, as its chat template uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import transformers

_ANSWER = "The answer."


def repair(tokenizer: transformers.PreTrainedTokenizerBase) -> Iterator[str]:
    """Correct a tokenizer in place, and yield a line for each correction.

    * The end token is the one with which the chat template ends an answer. (A GGUF file often names another one.)
    * The padding token is one that no dialogue contains, if there is one, else the end token.
    * Decoding does not remove blanks before punctuation.
    """
    any_: Any = tokenizer  # stubs declare these attributes without setters
    end = end_of_answer(tokenizer)
    if end is not None and end != tokenizer.eos_token:
        yield f"end token {tokenizer.eos_token} replaced by {end}, with which the chat template ends an answer"
        any_.eos_token = end
    if tokenizer.pad_token is None:
        unused = [t for t in ("<|endoftext|>", "<pad>", tokenizer.unk_token) if t in tokenizer.get_vocab()]
        any_.pad_token = next((t for t in unused if t != tokenizer.eos_token), tokenizer.eos_token)
        yield f"no padding token: {tokenizer.pad_token} is used"
    any_.clean_up_tokenization_spaces = False


def end_of_answer(tokenizer: transformers.PreTrainedTokenizerBase) -> str | None:
    """Return the special token that follows an answer in the chat template; None if none does."""
    if tokenizer.chat_template is None:
        return None
    dialogue = [{"role": "user", "content": "A question?"}, {"role": "assistant", "content": _ANSWER}]
    text = str(tokenizer.apply_chat_template(dialogue, tokenize=False))
    after = text.rpartition(_ANSWER)[2].strip()
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    ends = [token for token in special if after.startswith(token)]
    return max(ends, key=len) if ends else None
