"""The pictures of a batch, each stored once, however many transitions show it.

By itself verl stores the pixel values of every transition in TransferQueue, from where log-probabilities, reference and
update each read them. Here a transition has the digest of its picture, and the pixel values are in Ray's shared
memory, from where a rank takes each picture of a micro-batch once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

import ray
import torch
from torch import Tensor

NAME = "bepo-pictures"  # of the actor
DIGEST = "picture"  # takes the place of pixel values among what verl stores of a transition


class Pictures:
    """Where the pixel values of each picture are, by digest; a Ray actor, which keeps them alive."""

    def __init__(self) -> None:
        self._places: dict[str, Any] = {}

    def put(self, digest: str, place: list[Any]) -> None:
        """Keep a picture, whose place is given in a list, so that Ray does not fetch it."""
        self._places.setdefault(digest, place[0])

    def missing(self, digest: str) -> bool:
        """Return whether a picture is not stored yet."""
        return digest not in self._places

    def get(self, digests: list[str]) -> list[Any]:
        """Return where pictures are."""
        return [self._places[digest] for digest in digests]

    def clear(self) -> int:
        """Forget all pictures, and return how many there were."""
        n = len(self._places)
        self._places = {}
        return n


def store(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what the model reads of a transition besides tokens, with its pixel values stored and replaced."""
    if "pixel_values" not in inputs:
        return inputs
    pixels = inputs["pixel_values"].numpy()
    digest = hashlib.blake2b(pixels.tobytes() + repr(pixels.shape).encode(), digest_size=16).hexdigest()
    if ray.get(_actor().missing.remote(digest)):
        ray.get(_actor().put.remote(digest, [ray.put(pixels)]))
    return {name: value for name, value in inputs.items() if name != "pixel_values"} | {DIGEST: digest}


def restore(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what ``store`` was given, for each transition of a micro-batch; rows of padding have no picture."""
    rows = list(rows)
    digests = sorted({row[DIGEST] for row in rows if DIGEST in row})
    if not digests:
        return rows
    arrays = ray.get(ray.get(_actor().get.remote(digests)))
    pixels: dict[str, Tensor] = {digest: torch.from_numpy(array.copy()) for digest, array in zip(digests, arrays)}
    return [_with_pixels(row, pixels) if DIGEST in row else row for row in rows]


def _with_pixels(row: dict[str, Any], pixels: dict[str, Tensor]) -> dict[str, Any]:
    others = {name: value for name, value in row.items() if name != DIGEST}
    return others | {"pixel_values": pixels[row[DIGEST]]}


@cache
def _actor() -> Any:
    return ray.get_actor(NAME)
