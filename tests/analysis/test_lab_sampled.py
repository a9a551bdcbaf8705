"""Table lab-sampled by hand: recorded errors beside success in training in blocks."""

import csv

import numpy as np
import pytest
from scipy import stats

from analysis.data.lab import RECORDED
from tests.tables import table_of, write_rates

AT = "alfworld games=12 groups=8 group_size=4"
METHODS = ("grpo", "gigpo", "crbc", "gated_bepo", "shrunk_bepo")


def errors(at):
    """Return the recorded errors by estimator, without NaN."""
    with (RECORDED / "sampled.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["at"] == at and row["measure"] == "error"]
    return {row["estimator"]: np.array([float(row[str(i)]) for i in range(12) if row[str(i)]]) for row in rows}


def told(values, form):
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return f"{values.mean():{form}} [{low:{form}}, {high:{form}}]"


@pytest.mark.parametrize("blocks", [2, 3, 6])
def test_errors_stand_beside_speed_and_their_ranks_are_correlated(tmp_path, blocks):
    rates = dict(zip(METHODS, np.random.default_rng(1).uniform(0.2, 0.6, (len(METHODS), blocks))))
    write_rates(tmp_path, "blocks", rates, block=100, at={"env.name": "alfworld"})
    made = table_of(tmp_path, "lab-sampled")
    rows = {row[0].text: [getattr(cell, "text", cell) for cell in row[1:]] for row in made.rows}
    seen, hidden = (errors(at) for at in (AT, f"{AT} keys=hidden"))
    base = rates["gated_bepo"]
    for method, name in {"gigpo": "GiGPO", "crbc": "CRBCʳ", "shrunk_bepo": "Shrunk-BEPO"}.items():
        ahead = told(100 * (rates[method] - base), "z.1f") if blocks > 2 else "not run"
        assert rows[name][:3] == [told(seen[method], ".3f"), told(hidden[method], ".3f"), ahead]
    assert rows["Gated-BEPO"][2] == "0" and rows["RLOO"][2] == rows["GiGPO"][5] == "not run"
    key = "lab/sampled/alfworld"
    if blocks < 6:
        assert made.facts[key] == "too few runs"
        return
    expected = -stats.spearmanr([seen[m].mean() for m in METHODS], [rates[m].mean() for m in METHODS]).statistic
    assert made.facts[key].startswith(f"{expected:.2f} [") and "] over 5 settings (p 0." in made.facts[key]
    assert f"ALFWorld {made.facts[key]}" in made.notes[1]
    assert f"(ALFWorld {len(seen['grpo'])}; WebShop 12)" in made.notes[0]
