"""What a run keeps beyond its rows, and how a longer run goes on from what a shorter one kept."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.store.files import Corrupt, read_object, write_atomically
from bepo.store.runs import RunFolder, run_id
from bepo.store.stored import ROLLOUTS, RUN, read_run

MOST_TOKENS = 1_000_000
"""Tokens of a rollout batch that is kept unasked; compressed, a few megabytes at most."""


def keep_rollouts(run: Path, batch: RolloutBatch, update: int, updates: int, every: int) -> None:
    """Keep the batch of the first, the middle and the last update, and of every ``every``-th one (0: none).

    A batch that ``every`` asks for is kept whole; of others, as many groups as have ``MOST_TOKENS`` in all, at least
    one.
    """
    asked = every > 0 and update % every == 0
    if not asked and update not in (1, (updates + 1) // 2, updates):
        return
    (run / ROLLOUTS).mkdir(exist_ok=True)
    kept = batch if asked else bounded(batch, MOST_TOKENS)
    write_atomically(run / ROLLOUTS / f"{update:06d}.npz", kept.to_bytes())


def bounded(batch: RolloutBatch, most_tokens: int) -> RolloutBatch:
    """Return the first groups of a batch that have at most ``most_tokens`` tokens in all, at least one group."""
    ends = np.append(batch.group_start[1:], len(batch))
    return batch.first_groups(max(1, int((batch.language.transition_offset[ends] <= most_tokens).sum())))


def go_on_from_a_shorter_run(folder: RunFolder, identity: dict[str, Any]) -> None:
    """Give a new run the checkpoint of the longest finished run that differs in ``updates`` alone, if there is one.

    A line on stderr names a finished run that kept none, or was changed since.
    """
    for updates, shorter in _shorter_runs(folder, identity):
        try:
            read_run(shorter.path)
        except Corrupt as problem:
            print(f"{problem}; run {folder.id} does not go on from it", file=sys.stderr)
            continue
        if shorter.checkpoints():
            print(f"run {folder.id} goes on from update {updates} of run {shorter.id}", file=sys.stderr)
            return folder.go_on_from(shorter)
        print(
            f"run {shorter.id} of {updates} updates kept its policy alone, so run {folder.id} begins anew: "
            "a run with keep=resume can be continued",
            file=sys.stderr,
        )


def _shorter_runs(folder: RunFolder, identity: dict[str, Any]) -> list[tuple[int, RunFolder]]:
    """Return the updates and the folder of finished runs that differ in ``updates`` alone, the longest first."""
    found = []
    for path in folder.results.glob(f"runs/*/{RUN}"):
        with suppress(Corrupt):
            stored = read_object(path, "run file").get("identity")
            updates = stored.get("updates") if isinstance(stored, dict) else None
            is_shorter = isinstance(updates, int) and updates < identity["updates"]
            if is_shorter and run_id(identity | {"updates": updates}) == path.parent.name:
                found.append((updates, RunFolder(folder.results, path.parent.name)))
    return sorted(found, key=lambda pair: pair[0], reverse=True)
