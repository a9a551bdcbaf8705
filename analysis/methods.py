"""Names, order and one colour per method everywhere (Okabe-Ito, safe for colour-blind readers)."""

from __future__ import annotations

LABELS = {
    "ppo": "PPO (with critic)",
    "rloo": "RLOO",
    "grpo": "GRPO",
    "gagpo": "GAGPO (reconstruction)",
    "gigpo": "GiGPO",
    "hgpo": "HGPO",
    "graphgpo": "GraphGPO",
    "gated_bepo": "Gated-BEPO",
}
COLOURS = {
    "ppo": "#999999",
    "rloo": "#F0E442",
    "grpo": "#0072B2",
    "gagpo": "#CC79A7",
    "gigpo": "#009E73",
    "hgpo": "#E69F00",
    "graphgpo": "#56B4E9",
    "gated_bepo": "#D55E00",
}


def ordered(names: object) -> list[str]:
    """Known methods in the paper's order, then strangers by name."""
    known = list(LABELS)
    return sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))
