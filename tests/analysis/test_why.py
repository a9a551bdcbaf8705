"""Figure why: the variance around a baseline is that of simulated groups."""

import numpy as np
import pytest

from analysis.figures.why import BASELINES, around_baseline


@pytest.mark.parametrize("group_size, icc", [(2, 0.2), (4, 0.35), (8, 0.4), (4, 0.0)])
def test_the_variance_around_a_baseline_is_that_of_a_simulation(group_size, icc):
    rng = np.random.default_rng(0)
    task = np.sqrt(icc) * rng.standard_normal((200_000, 1))
    returns = task + np.sqrt(1 - icc) * rng.standard_normal((200_000, group_size))
    first, others = returns[:, 0], returns[:, 1:].mean(1)
    best = np.cov(first, others)[0, 1] / others.var()  # the regression on the mean of the others
    simulated = [np.var(first - others), np.var(first), np.var(first - best * others)]
    computed = around_baseline(group_size, icc)
    assert [computed[name] for name in BASELINES] == pytest.approx(simulated, rel=0.02)
