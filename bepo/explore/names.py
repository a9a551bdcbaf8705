"""Names of methods in print: those of estimators, and of presets that are methods of other papers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bepo.credit import estimators


class Preset(NamedTuple):
    """A preset that is a method of another paper: an estimator with a setting that none of its other presets has.

    ``reconstruction``: as of ``Estimator``.
    """

    label: str
    estimator: str
    field: str
    value: Any
    reconstruction: bool = False


# By the name of the preset (conf/credit/NAME.yaml).
PRESETS: Mapping[str, Preset] = {
    "gigpo_roll": Preset("GiGPO of ROLL", "gigpo", "state_scope", "batch"),
    "progpo": Preset("ProGPO", "grpo", "progress", 0.3, reconstruction=True),
    "rewardflow": Preset("RewardFlow", "graphgpo", "unreachable", "zero"),
}


def preset_of(credit: Mapping[str, Any]) -> str | None:
    """Return the preset that a run's ``credit`` settings are, if it is another paper's method."""
    same = (
        name
        for name, preset in PRESETS.items()
        if credit["name"] == preset.estimator and credit.get(preset.field) == preset.value
    )
    return next(same, None)


def label_of(credit: Mapping[str, Any]) -> str:
    """Return the name in print of a run's ``credit`` settings; the plain name if this version does not know it."""
    if preset := preset_of(credit):
        return PRESETS[preset].label
    known, name = estimators(), str(credit["name"])
    return (known[name].label if name in known else "") or name
