"""Table blocks-losses by hand."""

import json

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import in_block, write_run


def made(results):
    return build(artefacts()["blocks-losses"], Source(results), "laptop").table


def table(results):
    found = made(results)
    return [(found.headings[n], *(getattr(cell, "text", cell) for cell in row)) for n, row in enumerate(found.rows)]


def write(results, method, loss, block, rate):
    name, _, value = loss.partition(" ")
    at = {"credit.name": method, "loss.name": name} | in_block(block)
    if value:
        field, _, text = value.partition("=")
        at[f"loss.{field}"] = json.loads(text)
    write_run(results, "loss_axes", at, [[1, 0]], metrics={"train/success": rate})


@pytest.mark.parametrize("gain", [0.1, -0.1])
def test_the_declared_tests_are_over_six_blocks(tmp_path, gain):
    rng = np.random.default_rng(8)
    masked, losses = "sequence_mask=0.2", ("cispo", "sapo", "dr_grpo")
    changed = ("cispo " + masked, "sapo " + masked, "dr_grpo length=2")
    methods = ("grpo", "gated_bepo", "shrunk_bepo")
    rates = rng.uniform(0.3, 0.4, (3, 2, 3, 6))  # method, changed, loss, block
    rates[:, 1] += gain
    for method, own in zip(methods, rates, strict=True):
        assert made(tmp_path).facts == {}  # two methods were not declared
        for (one, loss, block), rate in np.ndenumerate(own):
            write(tmp_path, method, (losses, changed)[one][loss], 100 + block, rate)
    for method in methods:
        for loss in (*losses, *changed):
            write(tmp_path, method, loss, 106, 0.9 if loss in losses else 0.1)  # a block that was not declared
    facts, note = made(tmp_path).facts, " ".join(made(tmp_path).notes)
    points = 100 * (rates[:, 1] - rates[:, 0]).mean(0)  # loss, block
    for name, own in {"sequence-mask": points[:2].mean(0), "length": points[2]}.items():
        low, high = stats.ttest_1samp(own, 0).confidence_interval(0.95)
        p = stats.ttest_1samp(own, 0, alternative="greater").pvalue
        mean, verdict = f"{own.mean():z.1f} [{low:.1f}, {high:.1f}]", "helps" if gain > 0 else "does not help"
        assert facts[f"blocks-losses/{name}/mean"] == mean and facts[f"blocks-losses/{name}/verdict"] == verdict
        assert f"{verdict} ({mean}; one-sided p {p:.2g}; {own[4:].mean():z.1f} [" in note
    assert len(facts) == 4


def test_losses_are_compared_within_credit_and_block(tmp_path):
    assert table(tmp_path) == []
    rng = np.random.default_rng(5)
    rates = {key: rng.uniform(0.2, 0.6, 4) for key in [("grpo", "ppo_clip"), ("grpo", "gspo"), ("gigpo", "ppo_clip")]}
    for (method, loss), own in rates.items():
        for block, rate in enumerate(own, 100):
            write(tmp_path, method, loss, block, rate)
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
