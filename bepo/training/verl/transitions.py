"""Transitions of TransferQueue as a rollout batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError


def batch_of(transitions: Sequence[dict[str, Any]], n_episodes: int, logs: str) -> RolloutBatch:
    """Return the transitions as a batch, in the order of tasks and trajectories.

    Raises ``UserError`` if an episode failed or is missing; ``logs`` says where to look.
    """
    failures = [t["extra_fields"]["failure"] for t in transitions if "failure" in t["extra_fields"]]
    if failures:
        raise UserError(f"backend=verl: {len(failures)} episodes failed, one with: {failures[0]}; {logs}")
    order = np.array(sorted(range(len(transitions)), key=lambda i: _place(transitions[i])))
    batch = RolloutBatch.from_rows([_row(transitions[i]) for i in order])
    batch = replace(batch, row=order[batch.row])
    if batch.n_trajectories != n_episodes:
        raise UserError(f"backend=verl: {batch.n_trajectories} of {n_episodes} episodes ended; {logs}")
    return batch


def n_restarted(transitions: Sequence[dict[str, Any]]) -> int:
    """Return the number of episodes that were replayed because their environment worker died."""
    extra = [t["extra_fields"] for t in transitions]
    return len({(e["row"]["uid"], e["row"]["traj"]) for e in extra if e["restarts"]})


def _place(transition: dict[str, Any]) -> tuple[int, int, int]:
    """Return the numbers of task, trajectory and step of a stored transition."""
    row = transition["extra_fields"]["row"]
    return row["uid"], row["traj"], row["t"]


def _row(transition: dict[str, Any]) -> dict[str, Any]:
    """Return a stored transition as a row of ``RolloutBatch.from_rows``."""
    return {
        **transition["extra_fields"]["row"],
        "prompt_ids": transition["prompts"].numpy(),
        "response_ids": transition["responses"].numpy(),
        "logprobs": transition["rollout_log_probs"].numpy(),
    }
