"""Where recorded rollouts stand on the lab's dials: group size, share of variance between tasks, and aliasing."""

from __future__ import annotations

import numpy as np

from bepo.core.batch import RolloutBatch
from bepo.core.returns import between_share

DIALS = {
    "group_size": "trajectories of a group",
    "success": "share of episodes that succeed",
    "icc": "share of the variance of success between groups (intraclass correlation)",
    "hidden": "share of the variance of the expert's distance within a group that remains within a key (0: keys tell "
    "states apart)",
    "revisits": "share of transitions to a state in which the episode has already acted",
}
"""What is measured of one batch."""


def dials(batch: RolloutBatch) -> dict[str, float]:
    """Return every measure of ``DIALS``; NaN where it is not defined."""
    won = batch.success.astype(float)
    return {
        "group_size": batch.n_trajectories / batch.n_groups,
        "success": float(won.mean()),
        "icc": between_share(won, batch.trajectory_group),
        "hidden": hidden(batch),
        "revisits": float(batch.revisits.mean()),
    }


def hidden(batch: RolloutBatch) -> float:
    """Return the share of the expert's distance that a key leaves open, over states that are visited more than once.

    The mean square of distances around their key's mean, as a share of that around their group's mean, both unbiased.
    """
    if "expert_steps" not in batch.extras:
        return np.nan
    distance = batch.column("expert_steps", may_be_nan=True)
    known = ~np.isnan(distance)
    known &= np.bincount(batch.state[known], minlength=batch.n_states)[batch.state] > 1
    within, around = (_spread(distance[known], ids[known]) for ids in (batch.state, batch.group))
    return within / around if around > 0 else np.nan


def _spread(x: np.ndarray, ids: np.ndarray) -> float:
    """Return the pooled variance of ``x`` within equal ids."""
    place = np.unique(ids, return_inverse=True)[1]
    size = np.bincount(place)
    mean = np.bincount(place, weights=x) / size
    return float(((x - mean[place]) ** 2).sum() / max(len(x) - len(size), 1))
