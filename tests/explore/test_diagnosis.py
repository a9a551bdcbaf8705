"""Tables of a diagnosis: values beside returns, and histograms of terms."""

import numpy as np
import pandas as pd
import pytest

from bepo.explore.diagnosis import calibration, histograms


def table(values: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"advantage": 0.0, "value": values, "realised return": np.arange(len(values), dtype=float)})


@pytest.mark.parametrize(
    ("values", "bins"),
    [
        (list(range(10)), [(0.5, 2), (2.5, 2), (4.5, 2), (6.5, 2), (8.5, 2)]),
        ([0] * 9 + [1], [(0, 9), (1, 1)]),
        ([0.25] * 4, [(0.25, 4)]),
        ([3], [(3, 1)]),
        ([0, 0, 0, 0, 1, 1, 2, 2, 2, 5], [(0, 4), (1, 2), (2, 3), (5, 1)]),
    ],
)
def test_equal_values_share_a_bin_and_others_do_not_vanish(values, bins):
    found = calibration(table(values))
    assert list(zip(found["value"], found["transitions"])) == bins
    assert found["realised return"].iloc[-1] == pytest.approx(np.mean(range(len(values))[-bins[-1][1] :]))


def test_histograms_count_finite_values():
    found = histograms(table([0.0, 1.0, np.nan, np.inf, 1.0]))
    counts, edges = found["value"]
    assert (counts.sum(), counts[0], counts[-1], edges[0], edges[-1]) == (3, 1, 2, 0, 1)
