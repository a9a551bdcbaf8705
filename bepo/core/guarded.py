"""Copies of rollout batches for code of others, such as estimators of plug-ins."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.batch_checks import OF_TRANSITIONS
from bepo.core.tokens import Tokens

_ARRAYS = (*OF_TRANSITIONS, "task_score", "state_group", "broken")


def guarded(batch: RolloutBatch) -> RolloutBatch:
    """Return a copy of a batch with read-only arrays.

    A view would not do: ``np.add.at`` and torch write to read-only arrays.
    """
    arrays = {name: np.array(vars(batch)[name]) for name in _ARRAYS}
    extras = {name: np.array(values) for name, values in batch.extras.items()}
    tokens = batch.tokens and Tokens(**{f.name: np.array(vars(batch.tokens)[f.name]) for f in fields(Tokens)})
    for array in (*arrays.values(), *extras.values(), *(vars(tokens).values() if tokens else ())):
        array.flags.writeable = False
    texts = {name: list(vars(batch)[name]) for name in ("task", "state_key", "action_key")}
    return replace(batch, **arrays, **texts, extras=extras, tokens=tokens)
