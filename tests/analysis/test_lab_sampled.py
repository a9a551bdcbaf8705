"""Table lab-sampled by hand: recorded errors beside success in training in blocks."""

import csv

import numpy as np
import pytest
from scipy import stats

from analysis.data.lab import RECORDED
from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import in_block, write_run

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
    for method, own in rates.items():
        for block, rate in enumerate(own):
            at = {"credit.name": method, "env.name": "alfworld"} | in_block(100 + block)
            write_run(tmp_path, "blocks", at, [[1, 0]], metrics={"train/success": rate})
    made = build(artefacts()["lab-sampled"], Source(tmp_path), "laptop").table
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
    assert (
        f"ALFWorld {made.facts[key]}" in made.notes[1]
        and f"(ALFWorld {len(seen['grpo'])}; WebShop 12)" in made.notes[0]
    )
