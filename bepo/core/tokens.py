"""The tokens of a rollout batch: the prompts and responses of the language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from bepo.core.errors import UserError


@dataclass
class Tokens:
    """Prompts and responses of N transitions, as concatenated arrays of different lengths.

    ``ids`` holds each transition's prompt and then its response. P and R are the numbers of prompt and response tokens.
    ``allowed_*`` lists, for every response token, the tokens that could have been sampled (empty: all of them).
    ``images`` holds the I distinct pictures of the prompts; ``image`` is the index of the picture of each transition.
    """

    ids: Int[np.ndarray, " P_plus_R"]
    prompt_length: Int[np.ndarray, " N"]
    response_length: Int[np.ndarray, " N"]
    logprob: Float[np.ndarray, " R"]
    allowed_ids: Int[np.ndarray, " L"]
    allowed_length: Int[np.ndarray, " R"]
    value: Float[np.ndarray, " R_or_0"] = field(default_factory=lambda: np.empty(0, np.float32))  # of a critic, if any
    image: Int[np.ndarray, " N_or_0"] = field(
        default_factory=lambda: np.empty(0, np.int32)
    )  # -1: no picture; empty: no pictures in the batch
    images: UInt8[np.ndarray, "I H W 3"] = field(default_factory=lambda: np.empty((0, 0, 0, 3), np.uint8))

    @cached_property
    def transition_offset(self) -> Int[np.ndarray, " N_plus_1"]:
        """Return where each transition begins in ``ids``, and where the last one ends."""
        return offsets(self.prompt_length + self.response_length)

    @cached_property
    def response_offset(self) -> Int[np.ndarray, " N_plus_1"]:
        """Return where each response begins in arrays of response tokens, and where the last one ends."""
        return offsets(self.response_length)

    @cached_property
    def allowed_offset(self) -> Int[np.ndarray, " R_plus_1"]:
        """Return where the allowed ids of each response token begin in ``allowed_ids``, and where the last ones end."""
        return offsets(self.allowed_length)

    def prompt(self, i: SupportsIndex) -> Int[np.ndarray, " p"]:
        """Return the token ids of the prompt of transition ``i``."""
        start = self.transition_offset[i]
        return self.ids[start : start + self.prompt_length[i]]

    def response(self, i: SupportsIndex) -> Int[np.ndarray, " r"]:
        """Return the token ids of the response of transition ``i``."""
        start = self.transition_offset[i] + self.prompt_length[i]
        return self.ids[start : start + self.response_length[i]]

    def picture(self, i: SupportsIndex) -> UInt8[np.ndarray, "H W 3"] | None:
        """Return the picture that the prompt of transition ``i`` shows, or None."""
        return self.images[self.image[i]] if len(self.image) and self.image[i] >= 0 else None

    @classmethod
    def pack(cls, rows: Sequence[Mapping[str, Any]]) -> Tokens:
        """Make tokens of rows with ``prompt_ids``, ``response_ids`` and ``logprobs``.

        Optional keys are ``allowed``, ``values`` and ``image``. Raises ``UserError`` if pictures differ in size.
        """
        allowed = [a for row in rows for a in row.get("allowed") or [()] * len(row["response_ids"])]
        pieces = [part for row in rows for part in (row["prompt_ids"], row["response_ids"])]
        image, images = distinct([row.get("image") for row in rows])
        return cls(
            ids=_concat(pieces, np.int32),
            prompt_length=np.array([len(row["prompt_ids"]) for row in rows], np.int32),
            response_length=np.array([len(row["response_ids"]) for row in rows], np.int32),
            logprob=_concat([row["logprobs"] for row in rows], np.float32),
            allowed_ids=_concat(allowed, np.int32),
            allowed_length=np.array([len(a) for a in allowed], np.int32),
            value=_concat([row.get("values", ()) for row in rows], np.float32),
            image=image,
            images=images,
        )

    def of(self, kept: Bool[np.ndarray, " N"]) -> Tokens:
        """Return the tokens of the transitions that are kept, with all pictures."""
        responses = np.repeat(kept, self.response_length)
        return replace(
            self,
            ids=self.ids[np.repeat(kept, self.prompt_length + self.response_length)],
            prompt_length=self.prompt_length[kept],
            response_length=self.response_length[kept],
            logprob=self.logprob[responses],
            allowed_ids=self.allowed_ids[np.repeat(responses, self.allowed_length)],
            allowed_length=self.allowed_length[responses],
            value=self.value[responses] if len(self.value) else self.value,
            image=self.image[kept] if len(self.image) else self.image,
        )

    @classmethod
    def concat(cls, parts: Sequence[Tokens]) -> Tokens:
        """Concatenate tokens. Equal pictures are kept once."""
        some = any(len(p.images) for p in parts)
        pictures = [p.picture(i) for p in parts for i in range(len(p.prompt_length))] if some else []
        image, images = distinct(pictures)
        plain = [f.name for f in fields(cls) if f.name not in ("image", "images")]
        joined = {name: np.concatenate([vars(part)[name] for part in parts]) for name in plain}
        return cls(**joined, image=image, images=images)


def distinct(pictures: Sequence[np.ndarray | None]) -> tuple[Int[np.ndarray, " N_or_0"], UInt8[np.ndarray, "I H W 3"]]:
    """Return the picture index of each transition (-1: no picture), and each distinct picture by first appearance.

    Raises ``UserError`` if pictures differ in size.
    """
    seen: dict[bytes, int] = {}
    kept: list[np.ndarray] = []
    index = np.full(len(pictures), -1, np.int32)
    for i, picture in enumerate(pictures):
        if picture is None:
            continue
        index[i] = seen.setdefault(picture.tobytes(), len(seen))
        if index[i] == len(kept):
            kept.append(picture)
    if not kept:
        return np.empty(0, np.int32), np.empty((0, 0, 0, 3), np.uint8)
    if len({p.shape for p in kept}) > 1:
        raise UserError(f"pictures of one batch must have one size, found {sorted({p.shape for p in kept})}")
    return index, np.stack(kept)


def offsets(lengths: Sequence[int] | np.ndarray) -> Int[np.ndarray, " n_plus_1"]:
    """Return where each of the concatenated pieces begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _concat(pieces: Sequence[Sequence], dtype: type) -> np.ndarray:
    return np.concatenate([np.asarray(p, dtype) for p in pieces]) if pieces else np.empty(0, dtype)
