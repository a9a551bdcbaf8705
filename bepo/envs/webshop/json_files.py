"""Large JSON files, read entry by entry. Only the positions of the entries are kept in memory."""

from __future__ import annotations

import codecs
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
from jaxtyping import Int

from bepo.core.errors import UserError

_CHUNK = 1 << 22  # bytes
_LONGEST_ENTRY = 1 << 26  # characters; a file with a longer entry is broken
_DECODER = json.JSONDecoder()


class _Entries:
    """The entries of one JSON file by number, read from their positions in the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts, self._lengths = array("q"), array("i")

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def places(self) -> Int[np.ndarray, "2 n"]:
        """Return the first byte of each entry, and its length in bytes."""
        return np.array([self._starts, self._lengths], np.int64)

    def _set_places(self, places: Int[np.ndarray, "2 n"]) -> None:
        starts, lengths = places.tolist()
        self._starts, self._lengths = array("q", starts), array("i", lengths)

    def _add(self, start: int, length: int) -> None:
        self._starts.append(start)
        self._lengths.append(length)

    def _read(self, number: int) -> Any:
        with self.path.open("rb") as file:
            file.seek(self._starts[number])
            return json.loads(file.read(self._lengths[number]))


class JsonList(_Entries, Sequence):
    """The entries of a JSON list. Iterate over it once before you index it: this finds the positions."""

    @classmethod
    def at(cls, path: Path, places: Int[np.ndarray, "2 n"]) -> Self:
        """Return the list in a file with entries at these known positions."""
        known = cls(path)
        known._set_places(places)
        return known

    def __iter__(self) -> Iterator[Any]:
        self._starts, self._lengths = array("q"), array("i")
        for _, start, length, value in scan(self.path, "["):
            self._add(start, length)
            yield value

    def __getitem__(self, number: int) -> Any:
        return self._read(number)


class JsonObject(_Entries, Mapping):
    """The entries of a JSON object by key; if a key is repeated, its last entry counts."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._number: dict[str, int] = {}
        for key, start, length, _ in scan(path, "{"):
            self._number[key] = len(self._starts)
            self._add(start, length)

    @classmethod
    def at(cls, path: Path, places: Int[np.ndarray, "2 n"], numbers: Mapping[str, int]) -> Self:
        """Return the object in a file with entries at these positions; ``numbers`` maps keys to entry numbers."""
        known = cls.__new__(cls)
        _Entries.__init__(known, path)
        known._number = dict(numbers)
        known._set_places(places)
        return known

    @property
    def numbers(self) -> Mapping[str, int]:
        """The entry number of each key."""
        return self._number

    def __iter__(self) -> Iterator[str]:
        return iter(self._number)

    def __getitem__(self, key: str) -> Any:
        return self._read(self._number[key])


def scan(path: Path, opening: Literal["[", "{"]) -> Iterator[tuple[str, int, int, Any]]:
    """Yield ``(key, first byte, length in bytes, value)`` of each entry of a JSON object or list.

    The keys of a list are empty. Raises ``UserError`` naming the byte at which the file is not valid JSON.
    """
    with path.open("rb") as file:
        reader = _Reader(file)
        n_entries = 0
        try:
            reader.expect(opening)
            while not reader.at_end("]" if opening == "[" else "}"):
                key = ""
                if opening == "{":
                    key = reader.value()
                    reader.expect(":")
                start = reader.byte
                value = reader.value()
                yield key, start, reader.byte - start, value
                n_entries += 1
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path}: broken after {n_entries} entries, at byte {reader.byte} of {path.stat().st_size} "
                "(an unfinished download?); fetch the file again"
            ) from error


class _Reader:
    """Reads JSON values from a file through a window that moves forward."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._decode = file, codecs.getincrementaldecoder("utf-8")().decode
        self._window, self._position = "", 0
        # ``_byte`` is the position in the file of the window's character number ``_measured``.
        self._measured, self._byte = 0, 3 if file.read(3) == codecs.BOM_UTF8 else 0
        file.seek(self._byte)

    @property
    def byte(self) -> int:
        """The position in the file of the next character that is not blank."""
        self._skip_blanks()
        self._byte += len(self._window[self._measured : self._position].encode())
        self._measured = self._position
        return self._byte

    def expect(self, symbol: str) -> None:
        """Skip a symbol. Raises ``ValueError`` if something else comes next."""
        self._skip_blanks()
        if self._window[self._position : self._position + 1] != symbol:
            raise ValueError(f"no {symbol}")
        self._position += 1

    def at_end(self, closing: str) -> bool:
        """Skip a comma, if there is one, and return whether the list or object ends here."""
        self._skip_blanks()
        if self._window[self._position : self._position + 1] == ",":
            self._position += 1
            self._skip_blanks()
        return self._window[self._position : self._position + 1] == closing

    def value(self) -> Any:
        """Read the next value. Raises ``ValueError`` if it is not valid."""
        self._skip_blanks()
        while True:
            try:
                value, self._position = _DECODER.raw_decode(self._window, self._position)
                return value
            except json.JSONDecodeError:
                if len(self._window) - self._position > _LONGEST_ENTRY or not self._read_on():
                    raise

    def _skip_blanks(self) -> None:
        while True:
            rest = self._window[self._position : self._position + 64].lstrip()
            self._position = min(self._position + 64, len(self._window)) - len(rest)
            if rest or (self._position == len(self._window) and not self._read_on()):
                return

    def _read_on(self) -> bool:
        """Drop the read part of the window, append the next chunk, and return whether there was one."""
        self._byte += len(self._window[self._measured : self._position].encode())
        chunk = self._file.read(_CHUNK)
        self._window = self._window[self._position :] + self._decode(chunk, final=not chunk)
        self._position = self._measured = 0
        return bool(chunk)
