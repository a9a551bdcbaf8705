"""Table whole-methods by hand."""

import numpy as np

from tests.stored_runs import in_block, write_run
from tests.tables import interval_text, mean_text, table_of, texts

METHODS = {
    "GRPO": ("grpo", "ppo_clip"),
    "GiGPO": ("gigpo", "ppo_clip"),
    "Gated-BEPO": ("gated_bepo", "ppo_clip"),
    "Shrunk-BEPO": ("shrunk_bepo", "ppo_clip"),
    "DAPO": ("grpo", "dapo"),
    "Dr. GRPO": ("grpo", "dr_grpo"),
    "SAMPO": ("gigpo", "gspo"),
}


def rows_of(results):
    return {name: rest for name, *rest in texts(table_of(results, "whole-methods"))}


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
    rows = rows_of(tmp_path)
    assert list(rows) == list(METHODS)
    own = 100 * (2 * rates[:, :, 0] + rates[:, :, 1]) / 3
    own[-1] = 100 * rates[-1, :, 0]  # SAMPO: 150 of the 200 episodes of its first update
    for place, name in enumerate(METHODS):
        assert rows[name][0] == "3" and rows[name][3] == mean_text(own[place])
    assert rows["SAMPO"][1] == "0.3 ± 0.0" and rows["GRPO"][1] == "0.1 ± 0.0" and rows["GRPO"][4] == "–"
    assert rows["SAMPO"][4] == interval_text(own[-1] - own[0])
    assert "first 150 episodes" in table_of(tmp_path, "whole-methods").notes[1]


def test_without_runs_of_a_method_there_is_no_comparison(tmp_path):
    write(tmp_path, "GRPO", 100, [(0.5, 100), (0.5, 100)])
    assert list(rows_of(tmp_path).values()) == [["0", *["not run"] * 4]] * len(METHODS)
