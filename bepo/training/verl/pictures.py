"""The pictures of a batch, each stored once, even if many transitions show it.

verl stores the pixel values of every transition in TransferQueue, and the stages for log-probabilities, reference and
update each read them. Here a transition has only the digest of its picture. The pixel values are in Ray's shared
memory, and a rank reads each picture of a micro-batch once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from typing import Any

import ray
import torch
from torch import Tensor

NAME = "bepo-pictures"  # name of the actor
DIGEST = "picture"  # the field that replaces pixel values in verl's data of a transition


class Pictures:
    """References to the pixel values of each picture, by digest; a Ray actor, which keeps them in memory."""

    def __init__(self) -> None:
        self._places: dict[str, Any] = {}

    def put(self, digest: str, place: list[Any]) -> None:
        """Keep the reference to a picture; it is passed in a list, so that Ray does not fetch the picture."""
        self._places.setdefault(digest, place[0])

    def missing(self, digest: str) -> bool:
        """Return whether a picture is not stored yet."""
        return digest not in self._places

    def get(self, digests: list[str]) -> list[Any]:
        """Return references to pictures."""
        return [self._places[digest] for digest in digests]

    def clear(self) -> int:
        """Delete all pictures, and return their number."""
        n = len(self._places)
        self._places = {}
        return n


def store(inputs: dict[str, Any]) -> dict[str, Any]:
    """Store the pixel values of a transition, and return its non-token inputs with a digest instead."""
    if "pixel_values" not in inputs:
        return inputs
    pixels = inputs["pixel_values"].numpy()
    digest = hashlib.blake2b(pixels.tobytes() + repr(pixels.shape).encode(), digest_size=16).hexdigest()
    if ray.get(_actor().missing.remote(digest)):
        ray.get(_actor().put.remote(digest, [ray.put(pixels)]))
    return {name: value for name, value in inputs.items() if name != "pixel_values"} | {DIGEST: digest}


def restore(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the original inputs of ``store`` for each transition of a micro-batch; padding rows have no picture."""
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
