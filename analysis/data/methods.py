"""What methods and environments are called in print, and in which order methods stand.

Estimators and environments say their names themselves; here are the paper's order and its prompting baselines.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from bepo.credit import estimators
from bepo.envs import environments

# The paper's order of trained methods.
ORDER = ("ppo", "rloo", "grpo", "gagpo", "gigpo", "hgpo", "graphgpo", "gated_bepo")
PROMPTED = {"gpt-4o": "GPT-4o", "gemini-2.5-pro": "Gemini-2.5-Pro", "qwen2.5": "Qwen2.5", "qwen2.5-vl": "Qwen2.5-VL"}
PROMPTED |= {"qwen3": "Qwen3", "react": "ReAct", "reflexion": "Reflexion"}
PROMPTED |= {"react_original": "ReAct, its own protocol", "reflexion_original": "Reflexion, its own protocol"}
# What is asked in words that a tiny model, trained to imitate actions, does not know.
NEEDS_LANGUAGE = ("react", "reflexion", "react_original", "reflexion_original")
_VERSION = r"([-@](\d{2}.*|latest|preview.*))?"  # behind the name of a closed model
_ASKED_DIRECTLY = {"small": "qwen2.5", "large": "qwen2.5", "vl": "qwen2.5-vl"}
RECONSTRUCTION = "ʳ reconstruction: the paper's version has no public code."


# The estimators and the environments by name.
known_methods, known_environments = cache(estimators), cache(environments)


def name_of(method: str) -> str:
    """Return a method's name in print; a method that nobody knows keeps its own."""
    known = known_methods()
    return (known[method].label if method in known else PROMPTED.get(method)) or method


def environment_name(env: str) -> str:
    """Return an environment's name in print."""
    known = known_environments()
    return (known[env].label if env in known else "") or env


def is_reconstruction(method: str) -> bool:
    """Was the method rebuilt from a description, for want of public code? Estimators say so themselves."""
    known = known_methods()
    return known[method].reconstruction if method in known else method in NEEDS_LANGUAGE


def is_control(method: str) -> bool:
    """Is it no method, but a control with knowledge that no method has?"""
    known = known_methods()
    return method in known and known[method].upper_bound


def method_of(config: Mapping[str, Any], updates: int) -> str:
    """Return which method a run is of: its estimator, or, of an evaluation, the model or the way it was asked.

    A finished run that is evaluated again is of the method that trained it.
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
    """Return methods in the paper's order, then all others by name."""
    return sorted(methods, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
