"""Names, order and one colour per method everywhere (Okabe-Ito without its yellow: safe for
colour-blind readers, legible in print)."""

from __future__ import annotations

from bepo.credit import estimators

LABELS = {
    "ppo": "PPO (with critic)",
    "rloo": "RLOO",
    "grpo": "GRPO",
    "gagpo": "GAGPO",
    "gigpo": "GiGPO",
    "hgpo": "HGPO",
    "graphgpo": "GraphGPO",
    "gated_bepo": "Gated-BEPO",
}
PROMPTED = {
    "gpt-4o": "GPT-4o",
    "gemini-2.5-pro": "Gemini-2.5-Pro",
    "qwen2.5": "Qwen2.5",
    "qwen2.5-vl": "Qwen2.5-VL",
    "react": "ReAct",
    "reflexion": "Reflexion",
}
RECONSTRUCTION = "ʳ reconstruction: the paper's version has no public code."
ENVIRONMENTS = {"alfworld": "ALFWorld", "webshop": "WebShop", "sokoban": "Sokoban"}
COLOURS = {
    "ppo": "#999999",
    "rloo": "#000000",
    "grpo": "#0072B2",
    "gagpo": "#CC79A7",
    "gigpo": "#009E73",
    "hgpo": "#E69F00",
    "graphgpo": "#56B4E9",
    "gated_bepo": "#D55E00",
}
# Prompting baselines that no public code or prompt defines.
_PROMPTED_RECONSTRUCTIONS = ("react", "reflexion")


def name_of(method: str) -> str:
    """As printed; a method the paper does not know keeps its own name."""
    return LABELS.get(method) or PROMPTED.get(method, method)


def is_reconstruction(method: str) -> bool:
    """Was the method rebuilt from a description, for want of public code? Estimators say so themselves."""
    known = estimators()
    return method in _PROMPTED_RECONSTRUCTIONS or (method in known and known[method].reconstruction)


def ordered(names: object) -> list[str]:
    """Known methods in the paper's order, then strangers by name."""
    known = list(LABELS)
    return sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))
