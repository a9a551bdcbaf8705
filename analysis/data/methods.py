"""Names of methods and environments in tables and figures, and the order of methods.

Estimators and environments declare their own names. This file adds the paper's order and its prompting baselines.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from bepo.credit import estimators
from bepo.envs import environments
from bepo.explore.names import PRESETS

# The paper's order of trained methods.
ORDER = ("ppo", "rloo", "grpo", "gagpo", "gigpo", "hgpo", "graphgpo", "gated_bepo")
PROMPTED = {"gpt-4o": "GPT-4o", "gemini-2.5-pro": "Gemini-2.5-Pro", "qwen2.5": "Qwen2.5", "qwen2.5-vl": "Qwen2.5-VL"}
PROMPTED |= {"qwen3": "Qwen3", "react": "ReAct", "reflexion": "Reflexion"}
PROMPTED |= {"react_original": "ReAct, its own protocol", "reflexion_original": "Reflexion, its own protocol"}
# Prompting methods that need language. A tiny model is trained to imitate actions and does not know words.
NEEDS_LANGUAGE = ("react", "reflexion", "react_original", "reflexion_original")
_VERSION = r"([-@](\d{2}.*|latest|preview.*))?"  # after the name of a closed model
_ASKED_DIRECTLY = {"small": "qwen2.5", "large": "qwen2.5", "vl": "qwen2.5-vl"}
RECONSTRUCTION = "ʳ reconstruction from a description: no public code does this."


known_methods, known_environments = cache(estimators), cache(environments)


def name_of(method: str) -> str:
    """Return a method's name in print; an unknown method keeps its own name."""
    known = known_methods()
    if method in PRESETS:
        return PRESETS[method].label
    return (known[method].label if method in known else PROMPTED.get(method)) or method


def marked_name(method: str) -> str:
    """Return a method's name in print, with ʳ for a reconstruction."""
    return name_of(method) + "ʳ" * is_reconstruction(method)


def row_label(row: str, name: Callable[[str], str] = marked_name) -> str:
    """Return the name in print of a row: a method with its changed settings, such as ``gated_bepo backup=max``."""
    method, *settings = row.split(" ")
    return " ".join([name(method), *settings])


def environment_name(env: str) -> str:
    """Return an environment's name in print."""
    known = known_environments()
    return (known[env].label if env in known else "") or env


def is_reconstruction(method: str) -> bool:
    """Return whether the method is a reconstruction, as ``RECONSTRUCTION`` defines it."""
    known = known_methods()
    if method in PRESETS:
        return PRESETS[method].reconstruction
    return known[method].reconstruction if method in known else method in NEEDS_LANGUAGE


def is_privileged(method: str) -> bool:
    """Return whether this sees what an agent cannot, and so is a reference and not a method."""
    known = known_methods()
    return method in known and known[method].privileged


def method_of(config: Mapping[str, Any], updates: int) -> str:
    """Return the method of a run.

    It is the estimator of a training run, and the model or the prompting method of an evaluation. A finished run that
    is evaluated again has the method that trained it.
    """
    asked = config.get("prompting") or {}
    if updates or config.get("run"):
        return str(config["credit"]["name"])
    if asked.get("method", "direct") != "direct":
        return f"{asked['method']}_original" if asked["profile"] == "original" else str(asked["method"])
    if config["model"] != "closed":
        return _ASKED_DIRECTLY.get(config["model"], str(config["model"]))
    name = str(config["policy"]["model"]).rpartition("/")[2]
    return next((known for known in PROMPTED if re.fullmatch(re.escape(known) + _VERSION, name)), name)


def ordered(methods: Iterable[str]) -> list[str]:
    """Return methods in the paper's order, then the others by name."""
    return sorted(methods, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
