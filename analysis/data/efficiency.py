"""What training costs until it succeeds this often: updates, generated tokens and seconds."""

from typing import NamedTuple

import numpy as np

from analysis.data.runs import Run

STAGES = tuple(f"seconds/{stage}" for stage in ("rollout", "old_logprob", "reference", "values", "credit", "update"))
"""The stages of an update: its evaluations, which nobody needs for training, are left out."""
WINDOW = 10  # updates in the running mean of training success


class Cost(NamedTuple):
    """What a run had used at an update: updates, generated tokens, and seconds (of a CPU if it ran on one)."""

    updates: float
    tokens: float
    seconds: float


def cost_to(run: Run, success: float) -> tuple[Cost, bool]:
    """Return the cost up to the first update at which the mean training success of ten updates reaches this share.

    The second value says whether it ever did; a run that did not has the cost of all its updates. Raises ``KeyError``
    where the success was not logged.
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
