"""Table critic-lead by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import in_block, write_run

METHODS = ("grpo", "ppo grouped", "ppo")


def table(results):
    return build(artefacts()["critic-lead"], Source(results), "laptop").table


def write(results, env, method, block, rate):
    at = {"credit.name": method.split()[0], "env.name": env, "rollout.grouped": method != "ppo"} | in_block(block)
    study = "critic_lead" if method == "ppo grouped" else "blocks"
    write_run(results, study, at, [[1, 0]], metrics={"train/success": rate})


@pytest.mark.parametrize("share", [0.9, 0.1])
def test_what_remains_beyond_half_of_the_lead_is_tested_on_webshop(tmp_path, share):
    rng = np.random.default_rng(3)
    base = rng.uniform(0.2, 0.3, 6)
    more = base + rng.uniform(0.08, 0.12, 6)
    rates = dict(zip(METHODS, (base, base + share * (more - base) + rng.uniform(-0.01, 0.01, 6), more)))
    for block in range(6):
        made = table(tmp_path)
        assert "critic-lead/verdict" not in made.facts and f"({block} of 6 blocks" in made.notes[2]
        for method, own in rates.items():
            write(tmp_path, "webshop", method, 100 + block, own[block])
    for method in METHODS:
        write(tmp_path, "webshop", method, 106, 0.9)  # a block that was not declared
        write(tmp_path, "sokoban", method, 100, 0.5)
    made = table(tmp_path)
    rows = {row[0].text: [getattr(cell, "text", cell) for cell in row[1:]] for row in made.rows}
    assert rows["Sokoban"][:4] == ["1", "50.0", "50.0", "50.0"]

    def told(points):
        low, high = stats.ttest_1samp(points, 0).confidence_interval(0.95)
        return f"{points.mean():z.1f} [{low:.1f}, {high:.1f}]"

    base, same, more = (100 * rates[method] for method in METHODS)
    means = [f"{own.mean():.1f} ± {own.std(ddof=1):.1f}" for own in (base, same, more)]
    assert rows["WebShop"] == ["6", *means, told(same - base), told(more - same), "–"]
    beyond = same - (base + more) / 2
    p = stats.ttest_1samp(beyond, 0, alternative="greater").pvalue
    verdict = f"{'keeps' if share > 0.5 else 'does not keep'} more than half of its lead over GRPO"
    assert made.facts.items() >= {"critic-lead/verdict": verdict, "critic-lead/mean": told(beyond)}.items()
    differences = {"same": same - base, "lead": more - base}
    assert all(made.facts[f"critic-lead/webshop/{name}"] == told(points) for name, points in differences.items())
    assert f"{verdict} ({told(beyond)}; one-sided p {p:.2g})" in made.notes[2]


@pytest.mark.parametrize("share", [0.9, 0.1])
def test_what_rebn_has_beyond_half_of_ppos_lead_on_the_same_tasks_is_tested(tmp_path, share):
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.3, 6)
    same = base + rng.uniform(0.08, 0.12, 6)
    rates = dict(zip(METHODS, (base, same, same + 0.1)))
    rebn = base + share * (same - base) + rng.uniform(-0.01, 0.01, 6)
    for block in range(6):
        for method, own in rates.items():
            write(tmp_path, "webshop", method, 100 + block, own[block])
    for block in range(6):
        made = table(tmp_path)
        assert "critic-lead/rebn/verdict" not in made.facts and f"({block} of 6 blocks" in made.notes[3]
        write(tmp_path, "webshop", "rebn", 100 + block, rebn[block])
    made = table(tmp_path)
    beyond = 100 * (rebn - (base + same) / 2)
    every, unseen = (stats.ttest_1samp(own, 0).confidence_interval(0.95) for own in (beyond, beyond[3:]))
    verdict = f"{'has' if share > 0.5 else 'does not have'} more than half of PPO's lead"
    assert made.facts["critic-lead/rebn/verdict"] == verdict
    p = stats.ttest_1samp(beyond, 0, alternative="greater").pvalue
    told = f"{verdict} ({beyond.mean():z.1f} [{every.low:.1f}, {every.high:.1f}]; one-sided p {p:.2g}; "
    alone = f"{beyond[3:].mean():z.1f} [{unseen.low:.1f}, {unseen.high:.1f}] in the 3 blocks that had not been seen)"
    assert told + alone in made.notes[3]


@pytest.mark.parametrize("count", [5, 6])
def test_findings_tell_the_lead_and_what_remains_of_it_if_there_are_six_blocks(tmp_path, count):
    base, same, more = np.array([0.3, 0.4, 0.42])[:, None] + np.random.default_rng(4).uniform(0, 0.1, (3, count))
    for method, rates in zip(METHODS, (base, same, more)):
        for block, rate in enumerate(rates):
            write(tmp_path, "webshop", method, 100 + block, rate)
    for seed in range(2):
        for method in ("grpo", "ppo", "gated_bepo"):
            at = {"credit.name": method, "env.name": "webshop", "seed": seed, "rollout.grouped": method != "ppo"}
            write_run(tmp_path, "main_webshop", at, [[1, 0]], metrics={"train/success": 0.3 + seed / 10})
    made = build(artefacts()["findings"], Source(tmp_path), "laptop").table
    answer = next(row[2].text for row in made.rows if row[0].text == "What goes with PPO's difference?")

    def told(points):
        low, high = stats.ttest_1samp(100 * points, 0).confidence_interval(0.95)
        return f"{100 * points.mean():.1f} [{low:.1f}, {high:.1f}]"

    expected = f"6 blocks: {told(more - base)} against GRPO, on the same tasks {told(same - base)}"
    assert answer.startswith(expected) == (count == 6) and "5 blocks" not in answer
