"""Costs to a success, and several environments at once, by arithmetic of their own."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.data.efficiency import cost_to
from analysis.data.sources import Source
from analysis.data.strata import improvement, mean_curve, profile, profile_bands, strata
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import write_run
from tests.tables import table_of, write_rates


class Stub:
    """What ``cost_to`` asks of a run."""

    def __init__(self, metrics):
        self.metrics = pd.DataFrame(metrics)


def rising(last):
    """Twenty updates: ten without success, then ten with a success of 1 each, or none."""
    return Stub(
        {
            "update": range(1, 21),
            "train/success": [0.0] * 10 + [last] * 10,
            "train/transitions": 100,
            "train/response_length": 3.0,
            "seconds/rollout": 2.0,
            "seconds/update": 1.0,
            "seconds/evaluation": 50.0,
        }
    )


def test_costs_are_counted_up_to_the_update_that_reaches_the_threshold():
    cost, reached = cost_to(rising(1.0), 0.5)  # the mean of updates 6 to 15 is a half
    assert reached and cost == (15, 15 * 300, 15 * 3.0)
    cost, reached = cost_to(rising(0.0), 0.5)
    assert not reached and cost == (20, 20 * 300, 60.0)


def test_the_table_marks_lower_bounds(tmp_path):
    write_rates(tmp_path, "main_sokoban_text", {"grpo": (1.0, 1.0), "hgpo": (1.0, 0.1)}, updates=12)
    found = table_of(tmp_path, "sample-efficiency")
    half = [row for row, heading in zip(found.rows, found.headings) if "to 50 %" in heading]
    rows = {row[0].text: [value.text for value in row[1:3]] for row in half}
    assert rows == {"GRPO": ["2 of 2", "10"], "HGPO": ["1 of 2", "≥ 11"]}


def test_profiles_and_chances_of_two_environments():
    a, b = [np.array([10.0, 30.0]), np.array([50.0, 70.0])], [np.array([20.0, 20.0]), np.array([0.0, 60.0])]
    assert profile(a, np.array([0.0, 20.0, 55.0, 80.0])) == pytest.approx([1, 0.75, 0.25, 0])
    low, high = profile_bands(a, np.array([0.0, 20.0, 55.0]))
    assert low.tolist() == [1, 0.5, 0] and high.tolist() == [1, 1, 0.5]
    chance, interval = improvement(a, b)
    assert chance == pytest.approx((2 / 4 + 3 / 4) / 2)
    rng = np.random.default_rng(5)
    drawn = [
        np.mean([[x > y for x in rng.choice(p, 2) for y in rng.choice(q, 2)] for p, q in zip(a, b)])
        for _ in range(4000)
    ]
    assert (interval.low, interval.high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.13)
    assert np.isnan(improvement([a[1] + 50], [b[1]])[1].low)


def test_only_methods_of_every_shared_environment_are_compared(tmp_path):
    for env, methods in (
        ("alfworld", ("grpo", "hgpo")),
        ("webshop", ("grpo", "gated_bepo", "hgpo")),
        ("sokoban", ("ppo",)),
    ):
        for method in methods:
            write_run(tmp_path, f"main_{env}", {"env.name": env, "credit.name": method}, [[1, 0], [1, 1]])
    source = Source(tmp_path)
    runs = [run for env in ("alfworld", "webshop", "sokoban") for run in source.study(f"main_{env}", "laptop").runs]
    found = strata(runs)
    assert set(found) == {"grpo", "hgpo"} and [own.tolist() for own in found["grpo"]] == [[75.0], [75.0]]
    figure = build(artefacts()["performance-profiles"], source, "laptop").product
    assert "Gated-BEPO" in figure.notes[0] and {run.method for run in figure.runs} == {"grpo", "hgpo"}
    curves = build(artefacts()["aggregate-curves"], source, "laptop").product.figure
    assert [axis.get_title() for axis in curves.axes] == ["GRPO", "HGPO"]
    assert curves.axes[1].lines[-1].get_ydata().tolist()[::20] == [0.0, 75.0]


def test_an_aggregate_curve_weighs_environments_alike_whatever_their_seeds():
    one, two = np.array([[0.0, 10.0], [0.0, 30.0], [0.0, 50.0]]), np.array([[0.0, 100.0], [0.0, 80.0]])
    mean, low, high = mean_curve([one, two])
    assert mean.tolist() == [0, (30 + 90) / 2]
    # Welch: the variances of the two means are 400 / 3 and 200 / 2, a quarter of each in their mean.
    parts = np.array([400 / 3 / 4, 200 / 2 / 4])
    freedom = parts.sum() ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum())
    assert (low[1], high[1]) == pytest.approx((60 - half, 60 + half))
    assert np.isnan(low[0])  # no seeds differ
    assert np.isnan(mean_curve([one, two[:1]])[1]).all()
