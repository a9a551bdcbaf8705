"""What the files of a run must contain. A file can have the right checksum and still be written by another program.

Everything that reads stored runs relies on these types, so that one odd run is named and left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from bepo.store.files import Corrupt

_WORDS = {bool: "a truth value", int: "a whole number", float: "a number", str: "text", list: "a list"}
_WORDS |= {dict: "an object", NoneType: "null"}
_NUMBER = (int, float)
_LARGEST = 2**63

Kinds = tuple[type, ...]

_PARTS = ("env", "policy", "credit", "loss", "backend", "agent", "rollout", "training", "evaluation", "prompting")
_PARTS += ("health", "tracking", "study")
_CONFIG: dict[str, Kinds] = dict.fromkeys(_PARTS, (dict,))
_CONFIG |= {"seed": (int,), "updates": (int,), "tier": (str,), "model": (str,), "results": (str,), "keep": (str,)}
_NAMED = ("env", "policy", "credit", "loss", "backend")
_OF_PART: dict[str, dict[str, Kinds]] = {
    **{part: {"name": (str,)} for part in _NAMED},
    "env": {"name": (str,), "horizon": (int, NoneType)},
    "credit": {"name": (str,), "gamma": _NUMBER},
    "policy": {"name": (str,), "warm_start": (dict, NoneType), "lora": (dict,)},
    "study": {"name": (str,), "question": (str, NoneType)},
}
_METADATA: dict[str, Kinds] = {
    "run_id": (str,),
    "files": (dict,),
    "sizes": (dict,),
    "status": (str,),
    "tier": (str,),
    "seed": (int,),
    "sessions": (list,),
    "result": (dict,),
    "identity": (dict,),
    "task_sets": (dict,),
    "environment": (dict,),
    "versions": (dict,),
    "method": (dict,),
    "alarms": (list,),
    "device": (str,),
    "warm_start": (dict, NoneType),
    "wall_seconds_last_session": (*_NUMBER, NoneType),
}
_RESULT: dict[str, Kinds] = {"success": (*_NUMBER, NoneType), "updates": (int,), "missing": (dict, NoneType)}
_SESSION: dict[str, Kinds] = {"started": (str,), "commit": (str, NoneType), "machine": (dict,), "settings": (dict,)}
_START: dict[str, Kinds] = {"name": (str,), "digest": (str,)}
_TASK_SET: dict[str, Kinds] = {"tasks": (int,), "digest": (str,)}
_EPISODES: dict[str, Kinds] = {
    "update": (int,),
    "split": (str,),
    "evaluation_seed": (int,),
    "task": (str,),
    "kind": (str,),
    "success": (bool, *_NUMBER),
    **dict.fromkeys(("task_score", "return", "steps", "valid"), (bool, *_NUMBER, NoneType)),
}
_OF_EPISODE = ("update", "split", "evaluation_seed", "task", "success")  # columns that every row has
_METRIC: Kinds = (bool, *_NUMBER, NoneType)
_SCALARS: Kinds = (bool, int, float, str, NoneType)
_STEP: dict[str, Kinds] = {
    "prompt": (str,),
    "response": (str,),
    "action": (str, NoneType),
    "observation": (str,),
    "reward": _NUMBER,
    "valid": (bool, int),
}
_OF_STEP = ("prompt", "response", "action", "observation", "reward")


def check_config(config: Mapping[str, Any], place: Path) -> None:
    """Raise ``Corrupt`` for a config whose parts or whose most important settings have another type."""
    _check(config, _CONFIG, place)
    for part, kinds in _OF_PART.items():
        _check(config.get(part, {}), kinds, place, f"{part}.")
    start = config.get("policy", {}).get("warm_start") or {}
    _check(start, {"seed": (int,)}, place, "policy.warm_start.")


def check_metadata_types(metadata: Mapping[str, Any], place: Path) -> None:
    """Raise ``Corrupt`` for the content of a ``run.json`` in which something has another type."""
    _check(metadata, _METADATA, place)
    _check(metadata.get("result", {}), _RESULT, place, "result.")
    _check(metadata.get("warm_start") or {}, _START, place, "warm_start.")
    _check_all((metadata.get("result", {}).get("missing") or {}).values(), (int,), place, "result.missing")
    _check_all(metadata.get("files", {}).values(), (str,), place, "files")
    _check_all(metadata.get("sizes", {}).values(), (int,), place, "sizes")
    _check_all(metadata.get("alarms", []), (str,), place, "alarms")
    for name, kinds in (("sessions", _SESSION), ("task_sets", _TASK_SET)):
        items = metadata.get(name, [])
        for item in items.values() if isinstance(items, dict) else items:
            _check_all([item], (dict,), place, name)
            _check(item, kinds, place, f"{name}.")
    identity = metadata.get("identity", {})
    _check(identity, {**{part: (dict,) for part in _PARTS}, "method_versions": (dict,)}, place, "identity.")


def check_columns(columns: Mapping[str, Sequence[Any]], stream: str, place: Path) -> None:
    """Raise ``Corrupt`` for columns of ``episodes`` that are absent or of another type, and for odd updates."""
    if stream == "episodes" and columns and (lacking := [name for name in _OF_EPISODE if name not in columns]):
        raise Corrupt(f"{place}: its {stream} lack {lacking[0]}")
    for name, values in columns.items():
        if stream == "episodes":
            _check_all(values, _EPISODES.get(name, _SCALARS), place, f"{stream}.{name}")
        elif name == "update":
            _check_all(values, (int,), place, f"{stream}.{name}")


def check_rows(rows: Sequence[Mapping[str, Any]], stream: str, place: Path) -> None:
    """Raise ``Corrupt`` as ``check_columns`` does, and for a row of ``episodes`` that lacks a column."""
    names = dict.fromkeys(name for row in rows for name in row)
    check_columns({name: [row[name] for row in rows if name in row] for name in names}, stream, place)
    if stream == "episodes":
        for row in rows:
            if lacking := [name for name in _OF_EPISODE if name not in row]:
                raise Corrupt(f"{place}: a row of its {stream} lacks {lacking[0]}")


def numbers(values: Sequence[Any]) -> Sequence[Any]:
    """Return a column of ``metrics`` with None in place of other values than numbers, such as a plug-in's text."""
    if _fit(values, _METRIC):
        return values
    return [value if type(value) in _METRIC and _is_usual(value) else None for value in values]


def number_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of ``metrics`` with None in place of other values than numbers."""
    if all(type(value) in _METRIC and _is_usual(value) for row in rows for value in row.values()):
        return rows
    return [dict(zip(row, numbers(list(row.values())))) for row in rows]


def check_transcripts(rows: Iterable[Any], place: Path) -> None:
    """Raise ``Corrupt`` for transcripts that are not episodes with steps in words."""
    for row in rows:
        _check_all([row], (dict,), place, "transcripts")
        _check(row, {**_EPISODES, "end": (str,), "steps": (list,)}, place, "transcripts.")
        if not row.get("steps") or not {"task", "success"} <= row.keys():
            raise Corrupt(f"{place}: an episode of its transcripts has no steps, task or success")
        _check_all(row["steps"], (dict,), place, "transcripts.steps")
        for step in row["steps"]:
            if lacking := [name for name in _OF_STEP if name not in step]:
                raise Corrupt(f"{place}: a step of its transcripts lacks {lacking[0]}")
            _check(step, _STEP, place, "transcripts.steps.")


def check_packed(packed: Any, place: Path) -> None:
    """Raise ``Corrupt`` for a packed stream of an archive whose columns do not fit its rows."""
    _check_all([packed], (dict,), place, "rows")
    shapes, shape, columns = (packed.get(name) for name in ("shapes", "shape", "columns"))
    if not isinstance(shapes, list) or not isinstance(shape, list) or not isinstance(columns, dict):
        raise Corrupt(f"{place}: its rows have no shapes, shape or columns")
    for names in shapes:
        _check_all([names], (list,), place, "shapes")
        _check_all(names, (str,), place, "shapes")
    _check_all(shape, (int,), place, "shape")
    if any(not 0 <= i < len(shapes) for i in set(shape)):
        raise Corrupt(f"{place}: a row has a shape that does not exist")
    sizes = dict.fromkeys(columns, 0)
    for i in set(shape):
        for name in shapes[i]:
            sizes[name] = sizes.get(name, 0) + shape.count(i)
    for name, size in sizes.items():
        if not isinstance(values := columns.get(name), list) or len(values) != size:
            raise Corrupt(f"{place}: column {name[:60]!r} does not have {size} values")


def _check(values: Mapping[str, Any], kinds: Mapping[str, Kinds], place: Path, prefix: str = "") -> None:
    """Raise ``Corrupt`` for a field of ``values`` that has none of its kinds. Fields may be absent."""
    for name in values.keys() & kinds.keys():
        _check_all([values[name]], kinds[name], place, f"{prefix}{name}")


def _check_all(values: Iterable[Any], kinds: Kinds, place: Path, what: str) -> None:
    values = list(values)
    if _fit(values, kinds):
        return
    odd = next(value for value in values if type(value) not in kinds or not _is_usual(value))
    wanted = " or ".join(_WORDS[kind] for kind in kinds)
    raise Corrupt(f"{place}: its {what} is {odd!r:.60}, must be {wanted}")


def _fit(values: Sequence[Any], kinds: Kinds) -> bool:
    """Return whether all values are of these kinds and usual. The kinds that columns have need no loop of Python."""
    types = {*map(type, values)}
    if types == {float}:
        return float in kinds and all(map(math.isfinite, values))
    if types == {int}:
        return int in kinds and min(values) > -_LARGEST and max(values) < _LARGEST
    return types <= {*kinds} and (not types & {*_NUMBER} or all(map(_is_usual, values)))


def _is_usual(value: Any) -> bool:
    """Return whether a value is not a number that is infinite, NaN or too large for the arrays of readers."""
    return math.isfinite(value) if type(value) is float else type(value) is not int or abs(value) < _LARGEST
