"""Table whole-methods by hand."""

import numpy as np
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import in_block, write_run

METHODS = {
    "GRPO": ("grpo", "ppo_clip"),
    "GiGPO": ("gigpo", "ppo_clip"),
    "Gated-BEPO": ("gated_bepo", "ppo_clip"),
    "Shrunk-BEPO": ("shrunk_bepo", "ppo_clip"),
    "DAPO": ("grpo", "dapo"),
    "Dr. GRPO": ("grpo", "dr_grpo"),
    "SAMPO": ("gigpo", "gspo"),
}


def table(results):
    return build(artefacts()["whole-methods"], Source(results), "laptop").table


def texts(results):
    rows = [[getattr(cell, "text", cell) for cell in row] for row in table(results).rows]
    return {name: rest for name, *rest in rows}


def write(results, name, block, rows):
    method, loss = METHODS[name]
    at = {"credit.name": method, "loss.name": loss, "env.name": "sokoban"} | in_block(block)
    if name in ("DAPO", "SAMPO"):
        at |= {"rollout.mixed_groups": True, "rollout.max_batches": 3}
    metrics = [{"train/success": rate, "train/trajectories": episodes} for rate, episodes in rows]
    write_run(results, "blocks" if loss == "ppo_clip" else "whole_methods", at, [[1, 0]], metrics=metrics)


def test_methods_are_compared_for_the_same_number_of_episodes(tmp_path):
    rates = np.random.default_rng(4).uniform(0.2, 0.6, (len(METHODS), 3, 2))  # method, block, update
    for place, name in enumerate(METHODS):
        episodes = (200, 100) if name == "SAMPO" else (100, 50)
        for block in range(3):
            write(tmp_path, name, 100 + block, zip(rates[place, block], episodes, strict=True))
    write(tmp_path, "GRPO", 103, [(0.5, 10), (0.5, 10)])  # a block without the other methods
    rows = texts(tmp_path)
    assert list(rows) == list(METHODS)
    own = 100 * (2 * rates[:, :, 0] + rates[:, :, 1]) / 3
    own[-1] = 100 * rates[-1, :, 0]  # SAMPO: 150 of the 200 episodes of its first update
    for place, name in enumerate(METHODS):
        assert rows[name][0] == "3" and rows[name][3] == f"{own[place].mean():.1f} ± {own[place].std(ddof=1):.1f}"
    assert rows["SAMPO"][1] == "0.3 ± 0.0" and rows["GRPO"][1] == "0.1 ± 0.0" and rows["GRPO"][4] == "–"
    low, high = stats.ttest_1samp(own[-1] - own[0], 0).confidence_interval(0.95)
    assert rows["SAMPO"][4] == f"{(own[-1] - own[0]).mean():z.1f} [{low:.1f}, {high:.1f}]"
    assert "first 150 episodes" in table(tmp_path).notes[1]


def test_without_runs_of_a_method_there_is_no_comparison(tmp_path):
    write(tmp_path, "GRPO", 100, [(0.5, 100), (0.5, 100)])
    assert list(texts(tmp_path).values()) == [["0", *["not run"] * 4]] * len(METHODS)
