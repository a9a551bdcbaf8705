"""Table blocks-losses by hand."""

import numpy as np
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import write_run


def table(results):
    made = build(artefacts()["blocks-losses"], Source(results), "laptop").table
    return [(made.headings[n], *(getattr(cell, "text", cell) for cell in row)) for n, row in enumerate(made.rows)]


def test_losses_are_compared_within_credit_and_block(tmp_path):
    assert table(tmp_path) == []
    rng = np.random.default_rng(5)
    rates = {key: rng.uniform(0.2, 0.6, 4) for key in [("grpo", "ppo_clip"), ("grpo", "gspo"), ("gigpo", "ppo_clip")]}
    for (method, loss), own in rates.items():
        for block, rate in enumerate(own, 100):
            at = {"credit.name": method, "loss.name": loss, "seed": block, "policy.seed": block}
            write_run(
                tmp_path,
                "loss_axes",
                at | {"policy.warm_start.seed": block},
                [[1, 0]],
                metrics={"train/success": rate},
            )
    rows = {(row[0], row[1]): row[2:] for row in table(tmp_path)}
    own, points = (100 * x for x in (rates["grpo", "gspo"], rates["grpo", "gspo"] - rates["grpo", "ppo_clip"]))
    low, high = stats.ttest_1samp(points, 0).confidence_interval(0.95)
    difference = f"{points.mean():z.1f} [{low:.1f}, {high:.1f}]"
    assert rows["GRPO", "gspo"][:3] == ("4", f"{own.mean():.1f} ± {own.std(ddof=1):.1f}", difference)
    every = [("GRPO", "ppo_clip"), ("GRPO", "gspo"), ("GiGPO", "ppo_clip"), ("Mean over methods", "ppo_clip")]
    assert list(rows) == every  # gspo has not trained with every method
    mean = 50 * (rates["grpo", "ppo_clip"] + rates["gigpo", "ppo_clip"])
    assert rows[every[-1]][:2] == ("4", f"{mean.mean():.1f} ± {mean.std(ddof=1):.1f}")
    assert rows["GRPO", "ppo_clip"][2] == rows["GiGPO", "ppo_clip"][2] == "–"
