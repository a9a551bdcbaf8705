"""Aggregation as the paper nests it, and what is said beyond a mean."""

from math import inf, isnan
from statistics import mean, stdev

import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis.data.statistics import Scores, bootstrap, compare, detectable, estimate, pooled_std, seeds_to_detect


def sample(values, kinds=None):
    """``values``: (training seeds, evaluation seeds, tasks)."""
    values = np.asarray(values, float)
    tasks = tuple(f"t{i}" for i in range(values.shape[2]))
    return Scores(tuple(range(len(values))), tuple(values), tasks, tuple(kinds or [""] * len(tasks)))


THREE = [[[100, 0, 0, 0], [100, 100, 0, 0]], [[0, 0, 0, 0], [100, 0, 0, 0]], [[100, 100, 100, 0], [100, 100, 0, 0]]]


def test_evaluation_passes_are_averaged_within_a_training_seed_first():
    found = estimate(sample(THREE))
    per_seed = [mean(mean(p) for p in passes) for passes in THREE]
    assert (found.mean, found.std) == pytest.approx((mean(per_seed), stdev(per_seed)))
    assert found.n == 3 and found.level == "training"


def test_an_ablations_deviation_is_over_the_passes_of_its_one_training():
    found = estimate(sample(THREE[:1]), "evaluation")
    passes = [mean(p) for p in THREE[0]]
    assert (found.mean, found.std) == pytest.approx((mean(passes), stdev(passes)))
    assert found.n == 2 and found.level == "evaluation"
    assert estimate(sample(THREE), "evaluation").level == "training"  # more trainings say more
    assert isnan(estimate(sample(THREE[:1])).std)


def test_the_bootstrap_draws_seeds_and_tasks_within_kinds():
    rng = np.random.default_rng(1)
    values = 100 * (rng.random((6, 3, 40)) < rng.random((6, 1, 40)))
    inside = bootstrap(sample(values))
    grand = values.mean()
    tasks, seeds = values.mean(axis=(0, 1)), values.mean(axis=(1, 2))
    width = 2 * 1.96 * np.sqrt(tasks.var() / 40 + seeds.var() / 6)
    assert inside.low < grand < inside.high and inside.high - inside.low == pytest.approx(width, rel=0.25)
    halves = np.repeat([0.0, 100.0], 20)  # kinds explain everything: nothing is left to draw
    strata = sample(np.tile(halves, (1, 1, 1)), ["a"] * 20 + ["b"] * 20)
    assert bootstrap(strata).low == bootstrap(strata).high == 50
    assert bootstrap(sample(np.tile(halves, (1, 1, 1)))).low < 40


def test_two_methods_are_compared_by_welchs_t():
    a, b = sample(THREE), sample(np.asarray(THREE) * 0)
    found = compare(a, b)
    welch = scipy_stats.ttest_ind(a.per_seed, b.per_seed, equal_var=False)
    assert found.difference == pytest.approx(a.per_seed.mean()) and found.p == pytest.approx(welch.pvalue)
    limits = welch.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((limits.low, limits.high))
    assert found.separated is bool(welch.pvalue < 0.05)
    assert compare(a, a).difference == 0 and compare(a, a).separated is False and compare(a, a).improvement == 0.5


def test_probability_of_improvement_counts_pairs_of_trainings():
    assert compare(sample(THREE), sample(np.roll(THREE, 1, axis=0))).improvement == pytest.approx(0.5)
    better = sample(np.asarray(THREE) * 0 + 100)
    assert compare(better, sample(THREE)).improvement == 1


def test_one_training_seed_separates_nothing():
    mixed = np.tile([0.0, 100.0], (1, 2, 15))
    good, bad = sample(np.full((1, 2, 30), 100.0)), sample(np.zeros((1, 2, 30)))
    found = compare(good, sample(mixed))
    assert found.separated is None and isnan(found.p) and 30 < found.interval.low < 50 < found.interval.high < 70
    assert isnan(compare(good, bad).interval.low)  # nothing deviates, so the deviation is not known to be zero


def test_where_all_fail_there_is_no_interval():
    failed = sample(np.zeros((3, 2, 30)))
    assert isnan(bootstrap(failed).low) and isnan(bootstrap(failed, failed).low)


def test_comparisons_on_one_task_set_are_paired():
    rng = np.random.default_rng(0)
    base = 100.0 * (rng.random((1, 1, 200)) < 0.5)
    a, b = sample(base), sample(np.where(np.arange(200) < 10, 0, base))
    paired = compare(a, b).interval
    assert paired.high - paired.low < 8  # unpaired, the difference of two task sets of 200 spans 20 points
    three = np.repeat(base, 3, axis=0) + np.arange(3)[:, None, None]  # good and bad trainings, the same for both
    pairs = compare(sample(three), sample(three - 1))
    assert (pairs.paired.low, pairs.paired.high) == pytest.approx((1, 1)) and pairs.separated is False
    other = Scores((0,), b.values, tuple(f"u{i}" for i in range(200)), b.kinds)
    assert isnan(compare(a, other).interval.low)


def test_power_agrees_with_the_textbook():
    """Cohen (1988): 64 a group find half a deviation with power 0.8, 17 find a whole one, 26 find 0.8."""
    assert [seeds_to_detect(d, 1) for d in (0.5, 0.8, 1.0)] == [64, 26, 17]
    assert seeds_to_detect(5, 10) == 64 and seeds_to_detect(0, 1) == inf
    for n in (3, 17, 64):
        assert seeds_to_detect(detectable(2.0, n) * 1.0001, 2.0) == n
    assert detectable(1.0, 1) == inf
    assert pooled_std(sample(THREE), sample(THREE)) == pytest.approx(estimate(sample(THREE)).std)
    assert isnan(pooled_std(sample(THREE), sample(THREE[:1])))


def test_the_chance_of_improvement_has_an_interval_over_seeds():
    rng = np.random.default_rng(3)
    a, b = (sample(shift + rng.normal(size=(6, 1, 1))) for shift in (1, 0))
    told = compare(a, b)
    pairs = [float(x > y) for x in a.per_seed for y in b.per_seed]
    assert told.improvement == pytest.approx(mean(pairs)) and told.chance.low < told.improvement < told.chance.high
    drawn = rng.integers(0, 6, (4000, 2, 6))
    chances = [(a.per_seed[i][:, None] > b.per_seed[j][None]).mean() for i, j in drawn]
    assert (told.chance.low, told.chance.high) == pytest.approx(np.quantile(chances, [0.025, 0.975]), abs=0.03)
    assert np.isnan(compare(sample([[[1.0]]]), sample([[[2.0]]])).chance.low)
