"""The cost of training up to a success rate: updates, generated tokens and seconds."""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from analysis.data.runs import Run

STAGES = tuple(f"seconds/{stage}" for stage in ("rollout", "old_logprob", "reference", "values", "credit", "update"))
"""The stages of an update, without evaluations."""
WINDOW = 10  # updates in the running mean of training success


class Cost(NamedTuple):
    """The cost of a run up to an update: updates, generated tokens, and seconds (CPU seconds if it ran on a CPU)."""

    updates: float
    tokens: float
    seconds: float


def cost_to(run: Run, success: float) -> tuple[Cost, bool]:
    """Return the cost up to the first update at which the mean training success of ten updates reaches ``success``.

    Also return whether the run reached it. If not, the cost is that of all updates. Raises ``KeyError`` if training
    success was not logged.
    """
    rows = run.metrics
    means = np.convolve(rows["train/success"].to_numpy(float), np.full(WINDOW, 1 / WINDOW), mode="valid")
    reached = np.flatnonzero(means >= success - 1e-9) if len(rows) >= WINDOW else np.array([], int)
    count = int(reached[0]) + WINDOW if len(reached) else len(rows)
    tokens, seconds = _costs(run)
    spent = np.nansum(seconds[:count]) if seconds.size else np.nan
    return Cost(count, float(np.nansum(tokens[:count])) if tokens.size else np.nan, float(spent)), bool(len(reached))


@cache
def _costs(run: Run) -> tuple[Float[np.ndarray, " U"], Float[np.ndarray, "U S"]]:
    """Return the generated tokens of each of U updates, and its seconds in S stages; empty if they were not logged."""
    rows = run.metrics
    logged = {"train/transitions", "train/response_length"} <= set(rows)
    tokens = rows["train/transitions"] * rows["train/response_length"] if logged else np.empty(0)
    return np.asarray(tokens, float), rows.filter(STAGES).to_numpy(float)
