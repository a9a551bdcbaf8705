"""The checks of a rollout batch. A file from elsewhere may hold any arrays."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from bepo.core.errors import UserError
from bepo.core.interning import run_starts
from bepo.core.terminal import Terminal

if TYPE_CHECKING:
    from bepo.core.batch import RolloutBatch

OF_TRANSITIONS = ("group", "trajectory", "step", "state", "next_state", "terminal", "reward", "valid", "row", "action")
"""The fields of a batch with one entry for each transition."""


def check_lengths(batch: RolloutBatch) -> None:
    """Raise ``UserError`` for arrays whose lengths do not match, and for an extra column with the name of a field."""
    sizes = dict.fromkeys(OF_TRANSITIONS, len(batch)) | {"broken": len(batch.task_score)}
    sizes |= {"state_key": len(batch.state_group)}
    if taken := batch.extras.keys() & {item.name for item in fields(batch)}:
        raise UserError(f"extras: {', '.join(sorted(taken))} must have another name, this one is a field's")
    for name, size in (sizes | dict.fromkeys(batch.extras, len(batch))).items():
        value = batch.extras[name] if name in batch.extras else getattr(batch, name)
        if value is not None and len(value) != size:
            raise UserError(f"{name} has {len(value)} entries, not {size}")


def check_steps(batch: RolloutBatch) -> None:
    """Raise ``UserError`` unless steps are 0, 1, ... and exactly the last of a trajectory is marked terminal."""
    first = run_starts(batch.trajectory)
    place = np.arange(len(batch)) - np.repeat(first, np.diff(np.append(first, len(batch))))
    if (batch.step != place).any():
        bad = int(np.flatnonzero(batch.step != place)[0])
        raise UserError(
            f"transition {bad}: step {batch.step[bad]} of trajectory {batch.trajectory[bad]}, not {place[bad]}"
        )
    ends = batch.terminal != Terminal.NONE
    last = np.append(batch.trajectory[1:] != batch.trajectory[:-1], True)
    if not np.array_equal(ends, last):
        bad = int(np.flatnonzero(ends != last)[0])
        raise UserError(
            f"transition {bad} (trajectory {batch.trajectory[bad]}, step {batch.step[bad]}): the last transition of "
            f"a trajectory, and no other, must be marked {', '.join(t.name.lower() for t in Terminal if t)}"
        )


def check_ids(batch: RolloutBatch) -> None:
    """Raise ``UserError`` for ids or scores out of range."""
    ids = {"group": len(batch.task), "trajectory": len(batch.task_score), "state": len(batch.state_key)}
    ids |= {"next_state": len(batch.state_key)}
    for name, size in ids.items():
        value = getattr(batch, name)
        if len(value) and not (value.min() >= 0 and value.max() < size):
            raise UserError(f"{name} must be from 0 to {size - 1}, found {value.min()} to {value.max()}")
    if (outside := ~((batch.task_score >= 0) & (batch.task_score <= 1))).any():
        bad = int(np.flatnonzero(outside)[0])
        raise UserError(f"trajectory {bad}: task_score is {batch.task_score[bad]:g}, must be from 0 to 1")
