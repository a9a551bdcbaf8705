"""The table that sets methods between GRPO and the oracle, against random draws."""

import re
import statistics as plain

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import write_run


def table_of(folder, rates):
    """Build it from runs that succeed so often in training: a number for each seed."""
    for method, own in rates.items():
        for seed, rate in enumerate(own):
            at = {"env.name": "webshop", "credit.name": method, "seed": seed}
            write_run(folder, "headroom", at, [[1, 0]], metrics={"train/success": rate})
    return build(artefacts()["share-of-headroom"], Source(folder), "laptop").table


def test_the_share_of_headroom(tmp_path):
    """A method at 42 of 50 % from 30 % has 60 % of the headroom; its interval is checked by drawing the three means."""
    rates = {"grpo": (0.28, 0.30, 0.32), "gated_bepo": (0.40, 0.42, 0.44), "oracle": (0.49, 0.50, 0.51)}
    table = table_of(tmp_path, rates)
    found = {line[0].text: [cell.text for cell in line] for line in table.rows}
    assert found["GRPO"][2] == "0" and table.facts["share/webshop/small/grpo"] == "0"
    share, low, high = map(float, re.findall(r"[\d.]+", found["Gated-BEPO"][2]))
    errors = {method: plain.stdev(own) / 3**0.5 for method, own in rates.items()}
    drawn = np.random.default_rng(0).standard_normal((3, 100_000))
    base, own, oracle = (plain.fmean(rates[m]) + errors[m] * d for m, d in zip(rates, drawn))
    spread = 100 * ((own - base) / (oracle - base)).std()
    assert share == pytest.approx(60, abs=0.5)
    assert stats.t.ppf(0.975, 6) * spread - 0.7 < (high - low) / 2 < stats.t.ppf(0.975, 2) * spread


def test_no_share_where_the_tier_has_no_headroom(tmp_path):
    table = table_of(tmp_path, {"grpo": (0.3, 0.3, 0.3), "gigpo": (0.31,) * 3, "oracle": (0.32, 0.34, 0.33)})
    assert [line[2].text for line in table.rows] == ["–", "–", "–"]
