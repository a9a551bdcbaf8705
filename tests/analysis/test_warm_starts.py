"""The table of several warm starts, against intervals by scipy."""

import statistics as plain

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import write_run

RATES = {  # by start and method, a number for each training seed
    0: {"grpo": (0.40, 0.42, 0.44), "gated_bepo": (0.50, 0.53, 0.53)},
    1: {"grpo": (0.30, 0.31, 0.38), "gated_bepo": (0.45, 0.48, 0.48)},
    2: {"grpo": (0.50, 0.50, 0.53), "gated_bepo": (0.49, 0.52, 0.58)},
}


def table_of(folder, rates):
    for start, methods in rates.items():
        for method, own in methods.items():
            for seed, rate in enumerate(own):
                at = {"policy.warm_start.seed": start, "credit.name": method, "seed": seed}
                write_run(folder, "warm_start", at, [[1, 0]], metrics={"train/success": rate}, solved_before=start % 2)
    return build(artefacts()["warm-starts"], Source(folder), "laptop").table


def test_differences_within_and_over_starts(tmp_path):
    table = table_of(tmp_path, RATES)
    rows = [[cell.text for cell in row] for row in table.rows]
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
    facts = table_of(tmp_path, RATES).facts
    errors = [100 * plain.stdev(of["grpo"]) / 3**0.5 for of in RATES.values()]
    drawn = np.random.default_rng(0).standard_normal((200_000, 3)) * errors
    expected = drawn.var(axis=1, ddof=1).mean() ** 0.5
    assert float(facts["starts/sokoban/small/grpo/by-chance"]) == pytest.approx(expected, abs=0.06)


def test_a_start_without_the_base_and_a_single_start_say_nothing_over_starts(tmp_path):
    table = table_of(tmp_path, {0: RATES[0], 1: {"gated_bepo": (0.5, 0.6)}})
    assert len(table.rows) == 2 and not table.facts and "if all starts were equal" not in " ".join(table.notes)
