"""The table that says where a tier may judge credit, by arithmetic of its own."""

import pytest

from tests.tables import table_of, texts, write_rates


def rows_of(folder, oracle, base=(0.30, 0.32, 0.34), study="headroom", **settings):
    """Build the table from runs that succeed so often in training, a number for each seed."""
    write_rates(folder, study, {"grpo": base, "oracle": oracle}, at=settings)
    return texts(table_of(folder, "headroom"))


@pytest.mark.parametrize(
    "oracle, difference, error, verdict",
    [
        ((0.40, 0.42, 0.44), "+10.0", "1.6", "yes"),  # 2 points of deviation each: 2 sqrt(2 / 3)
        ((0.38, 0.39, 0.40), "+7.0", "1.3", "no"),  # fewer than 8 points
        ((0.30, 0.42, 0.54), "+10.0", "7.0", "no"),  # fewer than 4 standard errors
        ((0.50, 0.52), "+19.0", "1.5", "too few seeds"),
    ],
)
def test_the_rule(tmp_path, oracle, difference, error, verdict):
    (row,) = rows_of(tmp_path, oracle)
    assert row[:3] == ["Sokoban", "small", "32.0 ± 2.0"]
    assert row[4:] == [difference, error, f"3 + {len(oracle)}", verdict]


def test_runs_of_main_studies_count_too(tmp_path):
    assert rows_of(tmp_path, (0.5, 0.5, 0.5), study="main_sokoban_text")[0][4] == "+18.0"


def test_other_settings_are_another_row_and_a_method_alone_is_not_tested(tmp_path):
    rows_of(tmp_path, (0.5, 0.5, 0.5))
    rows = rows_of(tmp_path, (0.4, 0.4, 0.4), study="main_sokoban_text", **{"env.horizon": 9})
    assert sorted(row[4] for row in rows) == ["+18.0", "+8.0"]
    write_rates(tmp_path, "headroom", {"grpo": [1]}, at={"env.name": "webshop"})
    alone = rows_of(tmp_path, ())[-1]
    assert (alone[0], alone[3:]) == ("WebShop", ["not run", "–", "–", "1 + 0", "not tested"])


def test_an_oracle_that_starts_from_another_policy_decides_nothing(tmp_path):
    rows_of(tmp_path, (), base=(0.3, 0.3, 0.3))
    write_rates(tmp_path, "headroom", {"oracle": [0.5] * 3}, solved_before=1)
    assert [row[-1] for row in texts(table_of(tmp_path, "headroom"))] == ["not tested"]
    assert not table_of(tmp_path, "share-of-headroom").rows
    assert "Its rows differ in success before training, " in table_of(tmp_path, "sample-efficiency").notes[0]
