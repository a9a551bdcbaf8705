"""Tables findings and parts: what follows from runs whose numbers are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.data.reported import entries_of
from analysis.grid.contrasts import by_place, contrasts, shares
from analysis.grid.success import difference
from tests.stored_runs import write_run
from tests.tables import table_of, texts, write_rates

RATES = {
    "gated_bepo": (0.50, 0.52, 0.51),
    "grpo": (0.40, 0.42, 0.41),
    "gigpo": (0.50, 0.53, 0.49),
    "ppo": (0.60, 0.62, 0.61),
    "oracle": (0.70, 0.71, 0.72),
    "gated_bepo b_min=1": (0.30, 0.32, 0.31),
    "gated_bepo n_min=3": (0.51, 0.50, 0.52),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answers by question, for seven rows of three seeds on text Sokoban."""
    results = tmp_path_factory.mktemp("results")
    for name, rates in RATES.items():
        method, _, changed = name.partition(" ")
        field, _, value = changed.partition("=")
        zero, seconds = (0.0, 4.0) if method == "ppo" else (0.5, 2.0)
        for seed, rate in enumerate(rates):
            at = {"credit.name": method, "seed": seed, "credit.b_min": 2, "credit.n_min": 2}
            at |= {f"credit.{field}": int(value)} if field else {}
            at |= {"rollout.tasks": 16, "rollout.group_size": 8, "rollout.grouped": method != "ppo"}
            metrics = {
                "train/success": rate,
                "credit/zero_advantage_transitions": zero,
                "cpu/update": seconds,
                "time/update": seconds,
            }
            study = "gate_thresholds" if changed else "headroom" if method == "oracle" else "main_sokoban_text"
            write_run(results, study, at, [[1, 0]], metrics=metrics)
    return answers_of(results) | answers_of(results, "parts")


def answers_of(results, label="findings"):
    return {row[0]: row[2] for row in texts(table_of(results, label))}


def told(name: str, base: str = "gated_bepo") -> str:
    return difference(100 * np.array(RATES[name]), 100 * np.array(RATES[base]))


def test_methods_are_sorted_into_faster_slower_and_not_told_apart(answers):
    found = answers["Which methods learn faster or slower than Gated-BEPO?"]
    faster, slower, apart = found.removeprefix("One start: ").split("; ")
    assert faster == f"faster: Oracle (privileged) {told('oracle')}, PPO (with critic) {told('ppo')}"
    assert slower == f"slower: GRPO {told('grpo')}"
    assert apart == f"not told apart: GiGPO {told('gigpo')}"


def test_ppos_difference_is_from_the_best_method_without_a_critic(answers):
    found = answers["What goes with PPO's difference?"]
    assert found.startswith(f"{told('ppo')} against Gated-BEPO, the best without a critic; ")
    assert "an update has 128 tasks instead of 16; 0 % instead of 50 % of transitions have no advantage" in found
    assert found.endswith("it costs 2.0 times the CPU seconds")


def test_an_axis_has_the_variants_that_differ_in_it_alone(answers):
    expected = f"b_min=1 {told('gated_bepo b_min=1')}, n_min=3 {told('gated_bepo n_min=3')}"
    assert answers["Does the gate matter?"] == f"1 of 2 intervals exclude zero. One start: {expected}"
    assert "Does the decay matter?" not in answers


def test_headroom_is_the_oracles_difference_from_grpo(answers):
    found = answers["How much of the oracle's headroom does a method gain?"]
    assert found.startswith("One start: PPO (with critic) 67 [") and "Gated-BEPO 33 [" in found


@pytest.mark.parametrize("count, shown", [(5, False), (6, True)])
def test_a_row_needs_as_many_blocks_as_the_first_look(tmp_path, count, shown):
    rates = {name: RATES[name] for name in ("gated_bepo", "grpo")}
    write_rates(tmp_path, "main_sokoban_text", rates, at={"credit.b_min": 2, "credit.n_min": 2})
    salt = [0.3 + 0.001 * (block % 3) for block in range(100, 100 + count)]
    write_rates(tmp_path, "frontier", {"gated_bepo": [0.4] * count, "salt": salt}, block=100)
    found = answers_of(tmp_path)["Which methods learn faster or slower than Gated-BEPO?"]
    assert ("6 blocks: slower: SALTʳ -9.9 [" in found) == ("SALT" in found) == shown


def test_blocks_count_instead_of_one_start_where_three_have_both_rows():
    rates = {"base": np.array([1.0, 2, 3]), "a": np.array([2.0, 3, 4]), "b": np.array([9.0, 9, 9])}
    blocks = {"base": {1: 1.0, 2: 2.0, 3: 6.0}, "a": {1: 3.0, 2: 5.0, 3: 8.0}, "b": {1: 0.0, 2: 0.0}}
    found = contrasts("base", rates, pd.DataFrame(blocks))
    assert (found["a"].value, found["a"].units) == (pytest.approx((2 + 3 + 2) / 3), 3)
    deviation = np.std([2, 3, 2], ddof=1)
    assert found["a"].interval.high == pytest.approx(7 / 3 + stats.t.ppf(0.975, 2) * deviation / 3**0.5)
    assert (found["b"].value, found["b"].units) == (7, 0) and found["b"].text() == difference(rates["b"], rates["base"])
    assert by_place(found, ",".join) == "3 blocks: a. One start: b"


def test_a_share_over_blocks_has_the_interval_of_the_delta_method():
    """Compared with the deviation of the share over resampled blocks, from far more blocks than the bias needs."""
    rng = np.random.default_rng(0)
    low = rng.normal(20, 3, 400)
    high, own = low + rng.normal(30, 4, 400), low + rng.normal(12, 4, 400)
    found = shares(("low", "high"), {}, pd.DataFrame({"low": low, "high": high, "own": own}))
    assert found.keys() == {"own"} and found["own"].units == 400
    assert found["own"].value == pytest.approx(100 * (own - low).mean() / (high - low).mean())
    drawn = rng.integers(400, size=(4000, 400))
    resampled = 100 * (own - low)[drawn].mean(1) / (high - low)[drawn].mean(1)
    half = found["own"].interval.high - found["own"].value
    assert half == pytest.approx(1.96 * resampled.std(), rel=0.05)


@pytest.mark.parametrize("blocks", [5, 6])
def test_the_papers_order_is_compared_over_blocks_with_and_without_ppo(tmp_path, blocks):
    reported = {
        e.row: e.value.mean for e in entries_of("main-results") if [e.group, e.column] == ["1.5B", "webshop/success"]
    }
    methods = ("ppo", "rloo", "grpo", "gagpo", "gigpo", "hgpo", "gated_bepo")
    rates = dict(zip(methods, np.random.default_rng(2).uniform(0.1, 0.5, (len(methods), blocks))))
    write_rates(tmp_path, "blocks", rates, block=100, at={"env.name": "webshop"})
    write_rates(tmp_path, "main_webshop", {m: own[:1] for m, own in rates.items()}, at={"env.name": "webshop"})
    answer = answers_of(tmp_path)["Does the paper's order hold?"]

    def correlation(names):
        return stats.spearmanr([reported[n] for n in names], [rates[n].mean() for n in names]).statistic

    if blocks == 6:
        assert answer.startswith(f"6 blocks: Spearman's correlation {correlation(methods):.2f} [")
        assert f"over 7 methods, without PPO {correlation(methods[1:]):.2f} [" in answer
    else:
        assert answer.startswith("One start: ")


@pytest.mark.parametrize("of_oracle", [6, 3])
def test_the_note_has_the_shares_of_single_blocks(of_oracle, tmp_path):
    """Of the method that gains most, where the oracle has enough blocks."""
    write_rates(tmp_path, "main_sokoban_text", {name: RATES[name] for name in ("grpo", "gated_bepo")})
    write_rates(tmp_path, "headroom", {"oracle": RATES["oracle"]})
    rng = np.random.default_rng(0)
    rates = {"grpo": 0.3, "gated_bepo": 0.4, "gigpo": 0.35, "oracle": 0.5}
    blocks = {name: rate + 0.02 * rng.standard_normal(6) for name, rate in rates.items()}
    kept = blocks | {"oracle": blocks["oracle"][:of_oracle]}
    write_rates(tmp_path, "blocks", kept, block=100)
    note = table_of(tmp_path, "findings").notes[1]
    shares = 100 * (blocks["gated_bepo"] - blocks["grpo"]) / (blocks["oracle"] - blocks["grpo"])
    told = f"Sokoban Gated-BEPO {shares.min():.0f} to {shares.max():.0f} %" if of_oracle == 6 else "no blocks"
    assert note.endswith(f"Shares of single blocks, of the method with the largest: {told}.")
