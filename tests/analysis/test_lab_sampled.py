"""Table lab-sampled by hand: recorded errors beside success in training in blocks."""

import csv

import numpy as np
import pytest
from scipy import stats

from analysis.data.lab import RECORDED
from tests.tables import table_of, write_rates

AT = "alfworld games=12 groups=8 group_size=4"
METHODS = ("grpo", "gigpo", "crbc", "gated_bepo", "shrunk_bepo")


def recorded(at, measure):
    """Return a recorded measure by estimator, without NaN."""
    with (RECORDED / "sampled.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["at"] == at and row["measure"] == measure]
    return {row["estimator"]: np.array([float(row[str(i)]) for i in range(12) if row[str(i)]]) for row in rows}


def told(values, form):
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return f"{values.mean():{form}} [{low:{form}}, {high:{form}}]"


@pytest.mark.parametrize("blocks", [2, 3, 6])
def test_error_and_gain_stand_beside_speed_and_their_ranks_are_correlated(tmp_path, blocks):
    rates = dict(zip(METHODS, np.random.default_rng(1).uniform(0.2, 0.6, (len(METHODS), blocks))))
    write_rates(tmp_path, "blocks", rates, block=100, at={"env.name": "alfworld"})
    made = table_of(tmp_path, "lab-sampled")
    rows = {row[0].text: [getattr(cell, "text", cell) for cell in row[1:]] for row in made.rows}
    seen, hidden = (recorded(at, "error") for at in (AT, f"{AT} keys=hidden"))
    gain, base = recorded(AT, "gain"), rates["gated_bepo"]
    for method, name in {"gigpo": "GiGPO", "crbc": "CRBCʳ", "shrunk_bepo": "Shrunk-BEPO"}.items():
        ahead = told(100 * (rates[method] - base), "z.1f") if blocks > 2 else "not run"
        assert rows[name][:4] == [*(told(own[method], ".3f") for own in (seen, hidden, gain)), ahead]
    assert rows["Gated-BEPO"][3] == "0" and rows["RLOO"][3] == rows["GiGPO"][7] == "not run"
    for key, sign, measure in (("", -1, seen), ("/gain", 1, gain)):
        fact = made.facts[f"lab/sampled/alfworld{key}"]
        if blocks < 6:
            assert fact == "too few runs"
            continue
        by_hand = stats.spearmanr([measure[m].mean() for m in METHODS], [rates[m].mean() for m in METHODS]).statistic
        assert fact.startswith(f"{sign * by_hand:.2f} [") and "] over 5 settings (p 0." in fact
        assert f"ALFWorld {fact}" in made.notes[1]
    assert f"(ALFWorld {len(seen['grpo'])}; WebShop 12)" in made.notes[0]
