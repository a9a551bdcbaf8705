"""The metrics of an update, under the names of ``metrics.jsonl``, and totals over the rows of a run."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.interning import run_starts
from bepo.core.returns import tied
from bepo.core.tokens import Tokens
from bepo.credit import Credit
from bepo.envs import Split
from bepo.rollouts.collect import overlong

OF_ADVANTAGES = ("advantage_mean", "advantage_std", "token_advantage_mean")
"""The names of the moments of an update's advantages, under ``credit/``."""


def rollout_metrics(
    batch: RolloutBatch, max_response_length: int, end_ids: Collection[int], horizon: int
) -> dict[str, float]:
    """Return means over trajectories (shares in [0, 1], lengths in steps or tokens), and counts.

    ``train/ended_failure`` and ``train/ended_truncated``: the shares that ended without success, by themselves or at
    the time limit. ``train/tied_groups``: the share of groups of several trajectories whose returns are equal.
    ``train/overlong_episodes`` counts trajectories whose next prompt was too long; it is left out if it is 0.
    """
    ends, starts = batch.terminal[batch.last], run_starts(batch.trajectory_group)
    several = np.diff(np.append(starts, batch.n_trajectories)) > 1
    length, cut = batch.step[batch.last] + 1, int(overlong(batch, horizon).sum())
    counted: dict[str, float] = {"train/overlong_episodes": cut} if cut else {}
    return counted | {
        "train/success": float(batch.success.mean()),
        "train/ended_failure": float((ends == Terminal.FAILURE).mean()),
        "train/ended_truncated": float((ends == Terminal.TRUNCATION).mean()),
        "train/tied_groups": float(tied(batch.episode_return, starts)[several].mean()) if several.any() else 0.0,
        "train/return": float(batch.episode_return.mean()),
        "train/task_score": float(batch.task_score.mean()),
        "train/episode_length": float(length.mean()),
        "train/valid_actions": float(batch.valid.mean()),
        "train/transitions": len(batch),
        "train/broken_episodes": int(batch.broken.sum()),
        "train/trajectories": batch.n_trajectories,
        "train/response_length": float(batch.language.response_length.mean()),
        "train/response_clip_ratio": cut_share(batch.language, max_response_length, end_ids),
    }


def credit_metrics(credit: Credit) -> dict[str, float]:
    """Return mean and standard deviation of the transitions' advantages, and the metrics of the estimator."""
    moments = {"advantage_mean": float(credit.advantage.mean()), "advantage_std": float(credit.advantage.std())}
    return prefixed("credit", moments | credit.numbers())


def prefixed(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the same values under ``prefix/name``."""
    return {f"{prefix}/{name}": value for name, value in values.items()}


def cut_share(tokens: Tokens, max_response_length: int, end_ids: Collection[int]) -> float:
    """Return the share of responses that were cut at the token limit, without one of ``end_ids`` at their end."""
    last = tokens.ids[tokens.transition_offset[1:] - 1]
    return float(((tokens.response_length >= max_response_length) & ~np.isin(last, list(end_ids))).mean())


def success_rate(rows: Iterable[Mapping[str, Any]], split: Split, update: int) -> float:
    """Return the share of successful episodes of a split after an update, from rows of ``episodes.jsonl``."""
    return fmean(row["success"] for row in rows if row["split"] == split and row["update"] == update)


def seconds_of_updates(rows: Iterable[Mapping[str, Any]], clock: str = "time/", evaluation: bool = True) -> float:
    """Return the seconds of all updates, from rows of ``metrics.jsonl``.

    ``clock`` is the prefix of the columns that are added, and ``evaluation`` says whether evaluations are included.
    """
    seconds = ((name, value) for row in rows for name, value in row.items() if name.startswith(clock))
    return sum(value for name, value in seconds if evaluation or name != f"{clock}evaluation")


def of_several(rows: Iterable[Mapping[str, Any]], n: int) -> dict[str, dict[str, float]]:
    """Return ``pass_at`` and ``best_of`` of evaluation rows with ``n`` episodes per task, for k = 1, 2, 4, ... up to n.

    ``pass_at``: the probability that at least one of k episodes of a task succeeds, 1 - C(n - c, k) / C(n, k) for c
    successes (Chen et al., 2021, Eq. 1). ``best_of``: the expected best task score of k episodes. Both are means over
    tasks, over all ways to choose k of the n episodes. Keys are texts, as in JSON.
    """
    tasks: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row)
    ks = [2**i for i in range(n.bit_length())]
    successes = [[float(row["success"]) for row in of_task] for of_task in tasks.values()]
    scores = [[float(row["task_score"]) for row in of_task] for of_task in tasks.values()]
    return {
        name: {str(k): fmean(_expected_best(of_task, k) for of_task in values) for k in ks}
        for name, values in (("pass_at", successes), ("best_of", scores))
    }


def _expected_best(values: Sequence[float], k: int) -> float:
    """Return the mean of the largest of k values over all choices of k of the values."""
    ordered = sorted(values)
    chosen = math.comb(len(ordered), k)
    return sum(value * math.comb(below, k - 1) for below, value in enumerate(ordered)) / chosen
