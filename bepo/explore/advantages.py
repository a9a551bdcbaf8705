"""The advantages of every estimator on the same rollouts, for the heat strips of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit import Estimator, estimators, make

PARTS = ("outcome", "step", "rho", "value")
"""The terms of an estimator that are shown below its advantage. ``rho`` is a gate, or else a weight of the outcome."""
PAPERS = "gated_bepo"
"""The estimator whose gate and fixed-point values the page shows of every run."""
_MAY_BE_NAN = ("expert_steps", "next_expert_steps")  # NaN: the expert finds no way


@dataclass
class Strip:
    """The advantages of one estimator, and their parts, for N transitions."""

    name: str
    label: str
    own: bool  # whether the run was trained with this estimator and these settings
    advantage: Float[np.ndarray, " N"]
    parts: dict[str, Float[np.ndarray, " N"]] = field(default_factory=dict)


def strips(batch: RolloutBatch, credit: Mapping[str, Any]) -> list[Strip]:
    """Return a strip for each estimator that can be applied to the batch, beginning with the run's own.

    ``credit`` has the settings of the run's own estimator; the others have their defaults. Estimators that need the
    values of a critic, actions, entropies or the expert's steps are left out if the batch does not have them.
    """
    trained = str(credit["name"])
    chosen = {name: configured(name, credit if name == trained else {}) for name in (trained, *estimators())}
    made = []
    for name, estimator in chosen.items():
        if estimator is not None and applies(estimator, batch):
            result = estimator.credit_of(batch)
            rho = "weight" if result.gate is None else "gate"
            shown = {rho if t == "rho" else t: values for t, values in result.terms.items() if t in PARTS}
            label = estimator.label or name
            made.append(Strip(name, label, name == trained, result.advantage, shown if len(shown) > 1 else {}))
    return made


def applies(estimator: Estimator, batch: RolloutBatch) -> bool:
    """Return whether the batch has all arrays that the estimator needs."""
    if estimator.needs_critic and (batch.tokens is None or not batch.tokens.value.size):
        return False
    if estimator.needs_actions and not batch.has_actions:
        return False
    for name in estimator.needs:
        missing = np.isnan(batch.extras.get(name, np.array(np.nan)))
        if missing.all() or (missing.any() and name not in _MAY_BE_NAN):
            return False
    return True


def paper_part(strips: Sequence[Strip], part: str) -> Float[np.ndarray, " N"] | None:
    """Return the gate or the value of the paper's estimator; None if it is not among the strips."""
    return next((strip.parts.get(part) for strip in strips if strip.name == PAPERS), None)


def configured(name: str, settings: Mapping[str, Any]) -> Estimator | None:
    """Return an estimator with a run's settings; None if this version does not know the estimator or a setting."""
    try:
        return make(name, **{key: value for key, value in settings.items() if key != "name"})
    except UserError:
        return None
