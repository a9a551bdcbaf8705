"""What paper/desktop.yaml declares stays as it was before the first run, and its power is what a simulation gives."""

import numpy as np
import pytest
import yaml
from scipy import stats

from bepo.store.files import digest_of_file
from tests.conftest import DATA

PLAN = DATA.parents[1] / "paper" / "desktop.yaml"
TESTS = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["tests"]


def test_the_declaration_has_not_changed():
    assert digest_of_file(PLAN) == "5d538ced2f9a7315c1bc9643adb2ce9276b20579b2f352f14d7e925f71398275"


@pytest.mark.parametrize("test", TESTS, ids=[test["id"] for test in TESTS])
def test_power(test):
    n, rng = test["blocks"], np.random.default_rng(0)
    drawn = test["if_ahead"] + test["sd"] * rng.standard_normal((20_000, n))
    t = drawn.mean(1) / (drawn.std(1, ddof=1) / np.sqrt(n))
    assert (t > stats.t.ppf(0.95, n - 1)).mean() == pytest.approx(test["power"], abs=0.02)
