"""The table that sets methods between GRPO and the oracle, against random draws."""

import re
import statistics as plain

import numpy as np
import pytest
from scipy import stats

from tests.stored_runs import in_block, write_run
from tests.tables import table_of, write_rates


def shares_of(folder, rates):
    write_rates(folder, "headroom", rates, at={"env.name": "webshop"})
    return table_of(folder, "share-of-headroom")


def test_the_share_of_headroom(tmp_path):
    """A method at 42 of 50 % from 30 % has 60 % of the headroom; its interval is checked by drawing the three means."""
    rates = {"grpo": (0.28, 0.30, 0.32), "gated_bepo": (0.40, 0.42, 0.44), "oracle": (0.49, 0.50, 0.51)}
    table = shares_of(tmp_path, rates)
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
    table = shares_of(tmp_path, {"grpo": (0.3, 0.3, 0.3), "gigpo": (0.31,) * 3, "oracle": (0.32, 0.34, 0.33)})
    assert [line[2].text for line in table.rows] == ["–", "–", "–"]


def test_an_oracle_of_another_kind_is_named_and_not_compared_with_the_one_in_blocks(tmp_path):
    """The oracle of one start is ``progress``, that of the blocks ``outcome_residual``: two estimators, one name."""
    shown = {}
    for kind in ("progress", "outcome_residual"):
        for seed in range(4):
            for name, more in (("gated_bepo", {}), ("oracle", {"credit.variant": kind})):
                logged = {"train/success": 0.3 + 0.01 * seed * (name == "oracle")}
                at = {"credit.name": name, "seed": seed} | more
                write_run(tmp_path / kind, "main_sokoban_text", at, [[1, 0]], metrics=logged)
                at |= in_block(100 + seed)
                at |= {"credit.variant": "outcome_residual"} if more else {}
                write_run(tmp_path / kind, "blocks", at, [[1, 0]], metrics=logged)
        table = table_of(tmp_path / kind, "blocks-methods")
        shown[kind] = next(row[-1].text for row in table.rows if "Oracle" in row[1].text)
        assert "Credit of the oracle (docs/credit.md): Sokoban: outcome_residual." in table.notes
    assert shown["progress"] == "–" and shown["outcome_residual"].startswith("1.3 / 1.3")
