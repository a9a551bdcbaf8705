"""GGUF files, llama.cpp's format of quantised weights, as float32 checkpoints in this machine's cache."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from bepo.core.errors import Missing, UserError, why
from bepo.core.phases import note, report
from bepo.core.places import cache_folder
from bepo.policies.lm.chat import end_of_answer
from bepo.store.files import Corrupt, check_regular, digest_of_file
from bepo.store.folders import read_sealed_folder, seal_folder, size_of_folder
from bepo.store.locks import locked

_SEAL = "source.json"
_FLOAT32_PER_BYTE = 8  # a 4-bit file grows by this factor, and loading needs the memory twice


@cache
def converted(file: Path, expected: str | None = None) -> Path:
    """Return a float32 checkpoint with the weights and the tokenizer of a GGUF file. It is made once.

    ``expected`` is the SHA-256 that the file must have. Raises ``UserError`` if it has another one or cannot be read,
    and ``Missing`` without gguf or accelerate.
    """
    if not file.is_file():
        raise UserError(f"{file}: no such GGUF file")
    check_regular(file, "GGUF file")
    source = digest_of_file(file)
    if expected and source != expected:
        raise UserError(f"{file}: its SHA-256 is {source}, not {expected}: the file is damaged or another version")
    folder = cache_folder("weights") / f"{file.stem}-{source[:12]}"
    with locked(folder.with_name(f"{folder.name}.lock")):
        try:
            if read_sealed_folder(folder, _SEAL)["source"] == source:
                return folder
        except (OSError, Corrupt):
            shutil.rmtree(folder, ignore_errors=True)  # made by half, or damaged: it is made again from its source
        _make(file, folder, source)
    return folder


def _make(file: Path, folder: Path, source: str) -> None:
    """Convert a GGUF file into ``folder``, atomically."""
    gigabytes = file.stat().st_size * _FLOAT32_PER_BYTE / 1e9
    report("weights", f"converting {file.name} to float32 (at most {gigabytes:.1f} GB on disk, twice that in memory)")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        where: dict[str, Any] = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
        model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    except ImportError as error:
        raise Missing(
            f"{file.name} needs gguf and accelerate ({why(error)})", "pip install 'bepo[pretrained]'"
        ) from None
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError) as error:
        raise UserError(f"{file}: transformers cannot read this GGUF file ({why(error)})") from None
    for line in repair(tokenizer):
        note(f"{file.name}: {line}")
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = _ids(tokenizer)
    model.config.eos_token_id, model.config.pad_token_id = _ids(tokenizer)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    seal_folder(part, _SEAL, source=source, file=file.name, transformers=transformers.__version__)
    part.rename(folder)
    report("weights", f"{folder}: {size_of_folder(folder) / 1e9:.1f} GB")


def _ids(tokenizer: Any) -> tuple[int, int]:
    return tokenizer.eos_token_id, tokenizer.pad_token_id


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
