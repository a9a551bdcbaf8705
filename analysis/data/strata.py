"""Statistics over several environments (Agarwal et al., 2021): seeds are resampled within each environment."""

from collections.abc import Iterable, Sequence

import numpy as np

from analysis.contrast import NO_INTERVAL, Contrast, Interval
from analysis.data.runs import Run, grouped
from analysis.data.statistics import quantiles, resampled

Strata = Sequence[np.ndarray]
"""For each environment an array of scores, one per training seed."""


def by_environment(runs: Iterable[Run]) -> dict[str, list[list[Run]]]:
    """Return each method's runs, ordered by seed, in every environment that has at least two methods.

    Methods without runs in one of these environments are left out.
    """
    places = grouped(sorted(runs, key=lambda run: (run.seed, run.id)), lambda run: (run.env, run.model, run.task_set))
    shared = [same for _, same in sorted(places.items()) if len({run.method for run in same}) > 1]
    methods = [{run.method for run in same} for same in shared]
    return {
        method: [[run for run in same if run.method == method] for same in shared]
        for method in (sorted(set.intersection(*methods)) if methods else [])
    }


def strata(runs: Iterable[Run]) -> dict[str, list[np.ndarray]]:
    """Return the final success of the runs of ``by_environment``, in per cent."""
    rows = by_environment(runs)
    return {method: [np.array([_score(run) for run in same]) for same in places] for method, places in rows.items()}


def _score(run: Run) -> float:
    return float(run.passes().to_numpy().mean())


def profile(scores: Strata, thresholds: np.ndarray) -> np.ndarray:
    """Return the share of runs above each threshold, averaged over environments."""
    return np.mean([(sample[:, None] > thresholds).mean(axis=0) for sample in scores], axis=0)


def profile_bands(scores: Strata, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pointwise 95 % interval of the profile: (low, high)."""
    drawn = np.mean(
        [resampled(len(sample), i) @ (sample[:, None] > thresholds) for i, sample in enumerate(scores)], axis=0
    )
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return low, high


def mean_curve(curves: Strata) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean over environments, and its pointwise 95 % interval (Welch's): (mean, low, high).

    Each array of ``curves`` has the shape (training seeds, points). The interval is nan if an environment has one seed,
    and at points where all seeds are equal.
    """
    mean = np.mean([sample.mean(axis=0) for sample in curves], axis=0)
    counts, shares = [len(sample) for sample in curves], [1 / len(curves)] * len(curves)
    if min(counts) < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    deviations = np.stack([sample.std(axis=0, ddof=1) for sample in curves], axis=1)
    half = np.array([Contrast.of_deviations(0, shares, point, counts).half_width for point in deviations])
    return mean, mean - half, mean + half


def improvement(a: Strata, b: Strata) -> tuple[float, Interval]:
    """Return the probability that a training by ``a`` ends above one by ``b``, averaged over environments.

    Ties count half. The bounds of the interval are nan if an environment has one seed, or if all pairs of seeds agree.
    """
    wins = [np.heaviside(x[:, None] - y[None, :], 0.5) for x, y in zip(a, b, strict=True)]
    chance = float(np.mean([won.mean() for won in wins]))
    if min(min(won.shape) for won in wins) < 2 or not any(np.ptp(won) for won in wins):
        return chance, NO_INTERVAL
    drawn = [
        np.einsum("ri,ij,rj->r", resampled(won.shape[0], 2 * i), won, resampled(won.shape[1], 2 * i + 1))
        for i, won in enumerate(wins)
    ]
    return chance, quantiles(np.mean(drawn, axis=0))
