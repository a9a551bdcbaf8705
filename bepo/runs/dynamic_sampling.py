"""Dynamic sampling: an update trains only on groups with successes and failures (DAPO, SAMPO)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool

from bepo.core.batch import RolloutBatch
from bepo.training.backends import Engine, Rollouts


def mixed(batch: RolloutBatch) -> Bool[np.ndarray, " G"]:
    """Return which groups have at least one success and one failure.

    Successes are counted. Scores would not do: a penalty for one invalid action makes the scores of a failed group
    differ. Nor would advantages: rounding makes those of equal scores differ from 0.
    """
    size = np.bincount(batch.trajectory_group, minlength=batch.n_groups)
    successes = np.bincount(batch.trajectory_group[batch.success], minlength=batch.n_groups)
    return (successes > 0) & (successes < size)


def collect_mixed(
    engine: Engine, collect: Callable[[int], Rollouts], n_groups: int, max_batches: int
) -> tuple[Rollouts, list[RolloutBatch]]:
    """Return the first ``n_groups`` mixed groups of the batches ``collect(0)``, ``collect(1)``, ... and these batches.

    After ``max_batches`` batches the update goes on with the mixed groups found so far; without any, with the whole
    last batch. DAPO stops the run there.
    """
    parts: list[Rollouts] = []
    kept: list[Bool[np.ndarray, " G"]] = []
    found = 0
    while found < n_groups and len(parts) < max_batches:
        parts.append(collect(len(parts)))
        is_mixed = mixed(parts[-1].batch)
        kept.append(is_mixed & (np.cumsum(is_mixed) <= n_groups - found))
        found += int(kept[-1].sum())
    if not found:
        kept[-1][:] = True
    return engine.join(parts, kept), [part.batch for part in parts]
