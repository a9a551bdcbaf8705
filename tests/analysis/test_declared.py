"""Tests that docs/ declares."""

import numpy as np
import pytest
from scipy import stats

from analysis.claims.declared import LEVEL, DeclaredTest


@pytest.mark.parametrize("tier, missing", [("laptop", 0), ("paper", 0), ("smoke", 0), ("laptop", 1)])
def test_the_verdict_is_that_of_a_one_sided_t_test(tier, missing):
    spread = np.random.default_rng(0).normal(size=6)
    verdicts = set()
    for shift in np.linspace(-1.5, 2.5, 41):
        values = spread + shift
        points = {100 + block: value for block, value in enumerate(values[: 6 - missing])} | {106: 99.0}
        test = DeclaredTest("name", tier, points, ("yes", "no"))
        p = stats.ttest_1samp(values[: 6 - missing], 0, alternative="greater").pvalue
        assert test.p == pytest.approx(p)
        assert test.is_decided == (tier != "smoke" and not missing) == bool(test.facts)
        if test.is_decided:
            verdicts.add(test.verdict)
            assert test.facts["name/verdict"] == test.verdict == ("yes" if p < LEVEL else "no")
        else:
            assert f"{6 - missing} of 6 blocks" in test.told
    assert verdicts == ({"yes", "no"} if tier != "smoke" and not missing else set())
