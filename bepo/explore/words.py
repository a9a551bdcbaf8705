"""Prompts and responses of stored rollouts as text, decoded without loading the model."""

from __future__ import annotations

import re
from pathlib import Path

from tokenizers import Tokenizer

from bepo.core.batch import RolloutBatch
from bepo.store.archive import POLICIES
from bepo.store.files import folder_name
from bepo.store.published import WARM_STARTS
from bepo.store.run_files import StoredRun

_PICTURE = re.compile(r"(?:<\|image_pad\|>|<image>)+")
_PLACES = ("policy/tokenizer.json", "checkpoint-*/policy/tokenizer.json")
_TOKENIZER = "tokenizer.json"


def tokenizer_of(run: StoredRun) -> Tokenizer | None:
    """Return the tokenizer of a run: that in its folder, or of its published policy or warm start; None without one.

    A policy keeps the tokenizer of its warm start.
    """
    if run.path.is_dir():
        files = [path for place in _PLACES for path in sorted(run.path.glob(place))]
    else:
        start = (run.metadata.get("warm_start") or {}).get("name", "")
        places = (Path(WARM_STARTS) / folder_name(start, "warm start")) if start else None, Path(POLICIES) / run.id
        files = [path for place in places if place and (path := run.path.parent / place / _TOKENIZER).exists()]
    return Tokenizer.from_file(str(files[-1])) if files else None


def prompts_and_responses(batch: RolloutBatch, tokenizer: Tokenizer | None) -> tuple[list[str], list[str]] | None:
    """Return N prompts and N responses with special tokens; None without tokens or a tokenizer."""
    if tokenizer is None or batch.tokens is None:
        return None
    n = range(len(batch))
    prompts = tokenizer.decode_batch([batch.tokens.prompt(i).tolist() for i in n], skip_special_tokens=False)
    responses = tokenizer.decode_batch([batch.tokens.response(i).tolist() for i in n], skip_special_tokens=False)
    return [_PICTURE.sub("<image>", text) for text in prompts], responses
