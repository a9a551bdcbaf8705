"""Reads and checks a chat completion from an endpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from bepo.core.errors import printable

MOST_TOKENS = 10_000_000
"""The largest plausible token count of one answer."""


class Malformed(ValueError):
    """The answer is not a chat completion."""


@dataclass(frozen=True)
class Completion:
    """The first choice of a chat completion."""

    text: str
    reasoning: str  # separate from the text
    finish_reason: str
    model: str
    fingerprint: str | None
    usage: dict[str, int] | None  # tokens of ``prompt`` and ``response``; None if missing or implausible


def read_completion(data: bytes) -> Completion:
    """Read the body of an answer. Raises ``Malformed`` with one short line."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not valid JSON ({type(error).__name__})") from None
    if not isinstance(answer, dict):
        raise Malformed(f"the answer is {_kind(answer)}")
    if "choices" not in answer and "error" in answer:
        raise Malformed(label(answer["error"]))
    choices = _member(answer, "choices", list)
    choice = choices[0] if choices else None
    if not isinstance(choice, dict):
        raise Malformed(f"the first of choices is {_kind(choice)}")
    message = _member(choice, "message", dict)
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    fingerprint = answer.get("system_fingerprint")
    return Completion(
        text="" if message.get("content") is None else _encodable(_member(message, "content", str)),
        reasoning=_encodable(reasoning) if isinstance(reasoning, str) else "",
        finish_reason=label(choice.get("finish_reason")),
        model=label(_member(answer, "model", str)),
        fingerprint=None if fingerprint is None else label(fingerprint),
        usage=_usage(answer.get("usage")),
    )


def label(value: Any) -> str:
    """Return an endpoint's name or message as a short text without control characters."""
    try:
        return printable(" ".join(str(value).split()))[:100]
    except RecursionError:
        return _kind(value)


def _member(tree: dict[str, Any], name: str, kind: type) -> Any:
    if name not in tree:
        raise Malformed(f"{name} is missing")
    if not isinstance(tree[name], kind):
        raise Malformed(f"{name} is {_kind(tree[name])}")
    return tree[name]


def _kind(value: Any) -> str:
    """Name the type of a JSON value."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _usage(counts: Any) -> dict[str, int] | None:
    if not isinstance(counts, dict):
        return None
    usage = {"prompt": counts.get("prompt_tokens"), "response": counts.get("completion_tokens")}
    known = {name: count for name, count in usage.items() if type(count) is int and 0 <= count <= MOST_TOKENS}
    return known if len(known) == len(usage) else None


def _encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: JSON may contain lone surrogates."""
    return text.encode(errors="replace").decode()
