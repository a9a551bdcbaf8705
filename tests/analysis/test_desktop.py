"""What paper/desktop.yaml declares stays as it was before the first run, and its power is what a simulation gives."""

import numpy as np
import pytest
import yaml
from scipy import stats

from analysis.claims.new_blocks import DESKTOP as PLAN
from tests.tables import interval_text, table_of, texts, write_rates

DECLARED = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
TESTS, METHODS = DECLARED["tests"], DECLARED["order"]["methods"]


@pytest.mark.parametrize("test", TESTS, ids=[test["id"] for test in TESTS])
def test_power(test):
    n, rng = test["blocks"], np.random.default_rng(0)
    drawn = test["if_ahead"] + test["sd"] * rng.standard_normal((20_000, n))
    t = drawn.mean(1) / (drawn.std(1, ddof=1) / np.sqrt(n))
    assert (t > stats.t.ppf(0.95, n - 1)).mean() == pytest.approx(test["power"], abs=0.02)


def write_blocks(results, rates, first, blocks, tier, study):
    """Runs with a success in training of a rate for each method, and noise that its blocks share; by method."""
    rng = np.random.default_rng(first)
    speeds = {}
    for row, rate in rates.items():
        speeds[row] = rate + 0.02 * rng.standard_normal(blocks)
    # loaded weights have no seed, and their adapters have the block's
    pretrained = {"policy.seed": None, "policy.lora.rank": 8} if tier == "desktop" else {}
    write_rates(results, study, speeds, block=first, at={"model": tier, **pretrained}, tier=tier)
    return speeds


@pytest.mark.parametrize("blocks", [5, 6])
def test_a_test_is_judged_once_beside_the_tiny_model(blocks, tmp_path):
    rates = {"grpo": 0.3, "gated_bepo": 0.4, "shrunk_bepo": 0.4}
    own = write_blocks(tmp_path, rates, 300, blocks, "desktop", "desktop")
    tiny = write_blocks(tmp_path, rates, 100, 6, "laptop", "blocks")
    table = table_of(tmp_path, "desktop-claims", "desktop")
    gated, shrunk, order = texts(table)
    assert gated[1] == f"{blocks} of 6" and gated[2] == interval_text(100 * (own["gated_bepo"] - own["grpo"]))
    verdicts = ["not judged", "not judged"] if blocks < 6 else ["holds", "not shown"]
    assert [gated[4], shrunk[4]] == verdicts
    assert gated[5] == f"{interval_text(100 * (tiny['gated_bepo'] - tiny['grpo']))} (6 of 16)"
    assert f"Gated-BEPO over GRPO {gated[2]} in {blocks} of 6 blocks: {gated[4]}; " in table.facts["desktop/said"]
    assert order[1:] == ["3 of 11 methods", "–", "–", "not judged", "–"]  # at least six


def test_a_new_run_of_the_tiny_model_changes_the_table(tmp_path):
    """The table is kept until a run at either of its two tiers changes."""
    rates = {"grpo": 0.3, "gated_bepo": 0.4}
    write_blocks(tmp_path, rates, 300, 6, "desktop", "desktop")
    for blocks in (6, 7):
        write_blocks(tmp_path, rates, 100, blocks, "laptop", "blocks")
        assert texts(table_of(tmp_path, "desktop-claims", "desktop"))[0][5].endswith(f"({blocks} of 16)")


@pytest.mark.parametrize("blocks", [2, 3])
def test_the_order_is_judged_over_methods_with_three_blocks(blocks, tmp_path):
    rates = {row: 0.2 + 0.05 * i for i, row in enumerate(METHODS)}
    own = write_blocks(tmp_path, rates, 300, blocks, "desktop", "desktop")
    tiny = write_blocks(tmp_path, rates, 100, 6, "laptop", "blocks")
    table = table_of(tmp_path, "desktop-claims", "desktop")
    order = texts(table)[-1]
    said = f"the order of 11 methods beside that of the tiny model {order[2]} (rank): carries over"
    assert (said in table.facts["desktop/said"]) == (blocks == 3)
    if blocks < 3:
        assert order[1:] == ["0 of 11 methods", "–", "–", "not judged", "–"]
        return
    expected = stats.spearmanr(*([np.mean(speeds[row]) for row in METHODS] for speeds in (own, tiny))).statistic
    assert order[1] == "11 of 11 methods" and order[2].startswith(f"{expected:.2f} [") and order[4] == "carries over"
