"""Table findings: what follows from runs whose numbers are known."""

import numpy as np
import pytest

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.grid.success import difference
from analysis.output.build import build
from tests.stored_runs import write_run

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
    table = build(artefacts()["findings"], Source(results), "laptop").table
    assert table is not None
    return {row[0].text: row[2].text for row in table.rows}


def told(name: str, base: str = "gated_bepo") -> str:
    return difference(100 * np.array(RATES[name]), 100 * np.array(RATES[base]))


def test_methods_are_sorted_into_faster_slower_and_not_told_apart(answers):
    found = answers["Which methods learn faster or slower than Gated-BEPO?"]
    faster, slower, apart = found.removeprefix("One warm start. ").split("; ")
    assert faster == f"Faster: Oracle (upper bound) {told('oracle')}, PPO (with critic) {told('ppo')}"
    assert slower == f"slower: GRPO {told('grpo')}"
    assert apart == f"not told apart: GiGPO {told('gigpo')}"


def test_ppos_difference_is_from_the_best_method_without_a_critic(answers):
    found = answers["What goes with PPO's difference?"]
    assert found.startswith(f"{told('ppo')} against Gated-BEPO, the best without a critic; ")
    assert "an update has 128 tasks instead of 16; 0 % instead of 50 % of transitions have no advantage" in found
    assert found.endswith("it costs 2.0 times the CPU seconds")


def test_an_axis_has_the_variants_that_differ_in_it_alone(answers):
    expected = f"b_min=1 {told('gated_bepo b_min=1')}, n_min=3 {told('gated_bepo n_min=3')}"
    assert answers["Does the gate matter?"] == f"1 of 2 intervals exclude zero: {expected}"
    assert "Does the decay matter?" not in answers


def test_headroom_is_the_oracles_difference_from_grpo(answers):
    found = answers["How much of the oracle's headroom does a method gain?"]
    assert found.startswith("PPO (with critic) 67 [") and "Gated-BEPO 33 [" in found
