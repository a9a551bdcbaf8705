"""The table of pre-registered comparisons, against Student's test by hand and Holm's correction by its definition."""

import re

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output import page
from analysis.output.build import Built, build
from tests.tables import interval_text, table_of, texts, write_rates

RATES = {  # in training, by method, a number for each of eight seeds
    "gated_bepo": (0.50, 0.53, 0.55, 0.52, 0.49, 0.51, 0.54, 0.52),
    "grpo": (0.40, 0.42, 0.44, 0.40, 0.41, 0.43, 0.40, 0.42),
    "gigpo": (0.52, 0.50, 0.56, 0.51, 0.50, 0.49, 0.55, 0.52),
    "hgpo": (0.60, 0.63, 0.62, 0.61, 0.64, 0.60, 0.62, 0.63),
}


def built_of(folder, rates, tier="laptop") -> Built:
    for study, seed in (("replication", 16), ("main_sokoban_text", 0)):
        write_rates(folder, study, rates, seed=seed, tier=tier)
    return build(artefacts()["replication"], Source(folder), tier)


def differences(rival):
    return 100 * np.subtract(RATES["gated_bepo"], RATES[rival])


def test_each_comparison_is_tested_over_pairs_and_corrected_for_all_six(tmp_path):
    table = built_of(tmp_path, RATES).table
    rows = texts(table)
    assert [row[:2] for row in rows] == [[m, r] for m in ("In training", "Final") for r in ("GRPO", "GiGPO", "HGPO")]
    p = {rival: stats.ttest_1samp(differences(rival), 0).pvalue for rival in ("grpo", "gigpo", "hgpo")}
    p |= {name: 1.0 for name in ("final grpo", "final gigpo", "final hgpo")}  # nothing deviates
    corrected, reached = {}, 0.0
    for rank, name in enumerate(sorted(p, key=p.get)):
        reached = max(reached, min(1.0, (6 - rank) * p[name]))
        corrected[name] = reached
    for row, rival in zip(rows, ("grpo", "gigpo", "hgpo")):
        assert row[5] == interval_text(differences(rival))
        assert row[6:8] == [f"{p[rival]:.2g}", f"{corrected[rival]:.2g}"]
        samples = ([100 * rate for rate in RATES[method]] for method in ("gated_bepo", rival))
        low, high = stats.ttest_ind(*samples, equal_var=False).confidence_interval(0.95)
        assert row[2] == f"{differences(rival).mean():z.1f} [{low:.1f}, {high:.1f}]"
    assert [row[8] for row in rows] == ["holds", "undecided", "reversed", *["undecided"] * 3]
    assert [table.facts[f"declared_{word}"] for word in ("holds", "reversed", "undecided")] == ["1", "1", "4"]
    assert table.facts["replication/learning/grpo/verdict"] == "holds"
    assert table.facts["replication/learning/hgpo/difference"] == rows[2][5]


@pytest.mark.parametrize("tier, seeds, said", [("laptop", 7, "not complete"), ("smoke", 8, "not judged")])
def test_there_is_no_verdict_before_all_pairs_are_complete_nor_of_smoke(tmp_path, tier, seeds, said):
    table = built_of(tmp_path, RATES | {"hgpo": RATES["hgpo"][:seeds]}, tier).table
    assert {row[8] for row in texts(table)} == {said}
    assert [row[4] for row in texts(table)] == ["8", "8", str(seeds)] * 2


@pytest.mark.parametrize("seeds", [7, 8])
def test_the_page_counts_the_verdicts_once_there_are_any(tmp_path, seeds):
    built = built_of(tmp_path, {method: rates[:seeds] for method, rates in RATES.items()})
    shown = page.render([built], ["laptop"], "r", {"laptop": []})
    around = re.sub(r"<article .*?</article>", "", shown, flags=re.DOTALL)  # the table names them in its caption
    said = '6 <a href="#replication.laptop">pre-registered comparisons</a>, 1 hold, 1 are reversed and 4'
    assert (said in around) == (seeds == 8) and ("pre-registered" in around) == (seeds == 8)


def test_only_the_declared_seeds_count(tmp_path):
    """A ninth seed, added because a verdict was seen, changes nothing."""
    before = texts(built_of(tmp_path, RATES).table)
    for seed in (24, 15):
        write_rates(tmp_path, "replication", {m: [0.9 * (m == "gated_bepo")] for m in RATES}, seed=seed)
    assert texts(table_of(tmp_path, "replication")) == before


def test_without_runs_it_says_so(tmp_path):
    table = table_of(tmp_path, "replication")
    assert [row[2:6] for row in texts(table)] == [["not run", "not run", "0", "not run"]] * 6
