"""The table of several warm starts, against intervals by scipy."""

import statistics as plain

import numpy as np
import pytest
from scipy import stats

from tests.tables import table_of, texts, write_rates

RATES = {  # by start and method, a number for each training seed
    0: {"grpo": (0.40, 0.42, 0.44), "gated_bepo": (0.50, 0.53, 0.53)},
    1: {"grpo": (0.30, 0.31, 0.38), "gated_bepo": (0.45, 0.48, 0.48)},
    2: {"grpo": (0.50, 0.50, 0.53), "gated_bepo": (0.49, 0.52, 0.58)},
}


def starts_of(folder, rates):
    for start, methods in rates.items():
        write_rates(folder, "warm_start", methods, at={"policy.warm_start.seed": start}, solved_before=start % 2)
    return table_of(folder, "warm-starts")


def test_differences_within_and_over_starts(tmp_path):
    table = starts_of(tmp_path, RATES)
    rows = texts(table)
    assert [heading.rpartition(", ")[2] for heading in table.headings[::2]] == [
        "start 0 (solves 0.0 %)", "start 1 (solves 50.0 %)", "start 2 (solves 0.0 %)", "over 3 starts"
    ]  # fmt: skip
    assert rows[0] == ["GRPO", "42.0 ± 2.0", "50.0 ± 0.0", "–", "–"] and table.methods[:2] == ["GRPO", "Gated-BEPO"]
    own, base = (100 * np.array(RATES[1][method]) for method in ("gated_bepo", "grpo"))
    welch = stats.ttest_ind(own, base, equal_var=False).confidence_interval(0.95)
    assert rows[3][3] == f"{own.mean() - base.mean():.1f} [{welch.low:.1f}, {welch.high:.1f}]"
    differences = [100 * (plain.fmean(of["gated_bepo"]) - plain.fmean(of["grpo"])) for of in RATES.values()]
    student = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert rows[-1][3] == f"{plain.fmean(differences):.1f} [{student.low:.1f}, {student.high:.1f}]"
    assert rows[-1][3] == table.facts["starts/sokoban/small/gated_bepo/difference"]
    assert rows[-1][4] == "0.0" and "no" not in table.facts["starts/sokoban/small/gated_bepo/difference-final"]


def test_what_seeds_alone_would_make_of_the_starts_means(tmp_path):
    """The deviation of means of three seeds, drawn with each start's own deviation and one true mean."""
    facts = starts_of(tmp_path, RATES).facts
    errors = [100 * plain.stdev(of["grpo"]) / 3**0.5 for of in RATES.values()]
    drawn = np.random.default_rng(0).standard_normal((200_000, 3)) * errors
    expected = drawn.var(axis=1, ddof=1).mean() ** 0.5
    assert float(facts["starts/sokoban/small/grpo/by-chance"]) == pytest.approx(expected, abs=0.06)


def test_a_start_without_the_base_and_a_single_start_say_nothing_over_starts(tmp_path):
    table = starts_of(tmp_path, {0: RATES[0], 1: {"gated_bepo": (0.5, 0.6)}})
    assert len(table.rows) == 2 and not table.facts and "if all starts were equal" not in " ".join(table.notes)
