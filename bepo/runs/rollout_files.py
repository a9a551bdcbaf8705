"""The rollout batches that a run keeps: of which updates, and how much of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.store.files import write_atomically
from bepo.store.run_files import ROLLOUTS

MOST_TOKENS = 1_000_000
"""Most tokens of a rollout batch that is kept by default; compressed, a few megabytes."""


def keep_rollouts(run: Path, batch: RolloutBatch, update: int, updates: int, every: int) -> None:
    """Write the batch of the first, the middle and the last update, and of every ``every``-th one (0: no others).

    A batch that ``every`` asks for is written whole. Others are cut to the first groups with ``MOST_TOKENS`` in all.
    """
    asked = every > 0 and update % every == 0
    if not asked and update not in (1, (updates + 1) // 2, updates):
        return
    (run / ROLLOUTS).mkdir(exist_ok=True)
    kept = batch if asked else bounded(batch, MOST_TOKENS)
    write_atomically(run / ROLLOUTS / f"{update:06d}.npz", kept.to_bytes())


def bounded(batch: RolloutBatch, most_tokens: int) -> RolloutBatch:
    """Return the first groups of a batch with at most ``most_tokens`` tokens in all, but at least one group."""
    ends = np.append(batch.group_start[1:], len(batch))
    n = max(1, int((batch.language.transition_offset[ends] <= most_tokens).sum()))
    return batch.of_groups(np.arange(batch.n_groups) < n)
