"""What every estimator says about the same rollouts: the rows of the viewer's heat strips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit import Estimator, estimators, make

PARTS = {"outcome": "outcome", "step": "step", "rho": "gate", "value": "value"}
"""The terms of an estimator that are shown below its advantage, and what they are called there."""


@dataclass
class Strip:
    """The advantages of one estimator: N numbers, and the parts that they are made of."""

    name: str
    label: str
    own: bool  # is it the estimator that the run was trained with, with the run's settings?
    advantage: Float[np.ndarray, " N"]
    parts: dict[str, Float[np.ndarray, " N"]] = field(default_factory=dict)


def strips(batch: RolloutBatch, credit: Mapping[str, Any]) -> list[Strip]:
    """Return a strip for each estimator that can be applied to the batch, the run's own first.

    ``credit`` has the settings of the run's own estimator; the others have their defaults. Left out are estimators that
    need a critic's values, or the expert's steps, where the batch has none.
    """
    own = str(credit["name"])
    chosen = {name: _configured(name, credit if name == own else {}) for name in (own, *estimators())}
    found = []
    for name, estimator in chosen.items():
        if estimator is not None and applies(estimator, batch):
            result = estimator(batch)
            shown = {PARTS[term]: values for term, values in result.terms.items() if term in PARTS}
            label = estimator.label or name
            found.append(Strip(name, label, name == own, result.advantage, shown if len(shown) > 1 else {}))
    return found


def applies(estimator: Estimator, batch: RolloutBatch) -> bool:
    """Return whether the batch has what the estimator reads."""
    if estimator.needs_critic and (batch.tokens is None or not batch.tokens.value.size):
        return False
    return not estimator.needs_expert_steps or batch.expert_steps is not None


def _configured(name: str, settings: Mapping[str, Any]) -> Estimator | None:
    """Return an estimator with a run's settings; None where this bepo knows no such estimator or setting."""
    try:
        return make(name, **{key: value for key, value in settings.items() if key != "name"})
    except UserError:
        return None
