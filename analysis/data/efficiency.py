"""The cost of training up to a success rate: updates, generated tokens and seconds."""

from typing import NamedTuple

import numpy as np

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
    used = rows.iloc[:count]
    logged = {"train/transitions", "train/response_length"} <= set(rows)
    tokens = float((used["train/transitions"] * used["train/response_length"]).sum()) if logged else np.nan
    stages = used.filter(STAGES)
    return Cost(count, tokens, float(np.nansum(stages)) if not stages.empty else np.nan), bool(len(reached))
