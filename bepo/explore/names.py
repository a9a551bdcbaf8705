"""Names of methods in print: those of estimators, and of presets that are methods of other papers."""

from collections.abc import Mapping
from typing import Any

from bepo.credit import estimators

# By preset (conf/credit/NAME.yaml): name in print, estimator, and a setting that no other preset of the estimator has.
PRESETS: Mapping[str, tuple[str, str, str, Any]] = {
    "gigpo_roll": ("GiGPO of ROLL", "gigpo", "state_scope", "batch"),
    "progpo": ("ProGPO", "grpo", "progress", 0.3),
    "rewardflow": ("RewardFlow", "graphgpo", "unreachable", "zero"),
}


def preset_of(credit: Mapping[str, Any]) -> str | None:
    """Return the preset that a run's ``credit`` settings are, if it is another paper's method."""
    found = (
        name
        for name, (_, method, field, value) in PRESETS.items()
        if credit["name"] == method and credit.get(field) == value
    )
    return next(found, None)


def label_of(credit: Mapping[str, Any]) -> str:
    """Return the name in print of a run's ``credit`` settings; the plain name if this version does not know it."""
    known, preset = estimators(), preset_of(credit)
    if preset:
        return PRESETS[preset][0]
    return (known[credit["name"]].label if credit["name"] in known else "") or str(credit["name"])
