"""What methods and environments are called in print, and in which order methods stand.

Estimators and environments say their names themselves; here are the paper's order and its prompting baselines.
"""

from collections.abc import Iterable
from functools import cache

from bepo.credit import estimators
from bepo.envs import environments

# The paper's order of trained methods.
ORDER = ("ppo", "rloo", "grpo", "gagpo", "gigpo", "hgpo", "graphgpo", "gated_bepo")
PROMPTED = {"gpt-4o": "GPT-4o", "gemini-2.5-pro": "Gemini-2.5-Pro", "qwen2.5": "Qwen2.5", "qwen2.5-vl": "Qwen2.5-VL"}
PROMPTED |= {"react": "ReAct", "reflexion": "Reflexion"}
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
    return known[method].reconstruction if method in known else method in ("react", "reflexion")


def ordered(methods: Iterable[str]) -> list[str]:
    """Return methods in the paper's order, then all others by name."""
    return sorted(methods, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
