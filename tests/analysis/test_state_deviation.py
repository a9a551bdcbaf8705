"""Table state-deviation by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import in_block, write_run

METHODS = {"graft": "GRAFTʳ", "graphhca": "GraphHCAʳ", "g2po": "G2PO"}


def table(results):
    return build(artefacts()["state-deviation"], Source(results), "laptop").table


def write(results, method, std, block, rate):
    at = {"credit.name": method, "credit.std": std, "env.name": "alfworld"} | in_block(block)
    study = "state_deviation" if std == "none" else "frontier"
    write_run(results, study, at, [[1, 0]], metrics={"train/success": rate})


@pytest.mark.parametrize("gain", [0.1, -0.1])
def test_the_mean_over_methods_is_tested_over_the_declared_blocks(tmp_path, gain):
    rates = np.random.default_rng(6).uniform(0.3, 0.4, (3, 2, 5))  # method, without, block
    rates[:, 1] += gain
    for block in range(5):
        assert table(tmp_path).facts == {} and f"({block} of 5 blocks" in table(tmp_path).notes[2]
        for (method, without, _), rate in np.ndenumerate(rates[..., [block]]):
            write(tmp_path, list(METHODS)[method], ("sample", "none")[without], 101 + block, rate)
    for method in METHODS:
        for std in ("sample", "none"):
            write(tmp_path, method, std, 100, 0.9 if std == "none" else 0.1)  # a block that was not declared
    made = table(tmp_path)
    rows = {row[0].text: [getattr(cell, "text", cell) for cell in row[1:]] for row in made.rows}
    assert list(rows) == [*METHODS.values(), "Mean over methods"]
    for name, own in zip(rows, 100 * np.vstack([rates, rates.mean(0, keepdims=True)]), strict=True):
        points = own[1] - own[0]
        low, high = stats.ttest_1samp(points, 0).confidence_interval(0.95)
        texts = [f"{x.mean():.1f} ± {x.std(ddof=1):.1f}" for x in own]
        assert rows[name] == ["5", *texts, f"{points.mean():z.1f} [{low:.1f}, {high:.1f}]"]
    assert made.notes[-1].startswith("ʳ reconstruction")
    p = stats.ttest_1samp(points, 0, alternative="greater").pvalue
    mean = rows["Mean over methods"][3]
    verdict = "is higher" if gain > 0 else "is not higher"
    assert made.facts == {"state-deviation/verdict": verdict, "state-deviation/mean": mean}
    low, high = stats.ttest_1samp(points[2:], 0).confidence_interval(0.95)
    alone = f"{points[2:].mean():z.1f} [{low:.1f}, {high:.1f}] in the 3 blocks that had not been seen"
    assert f"{verdict} ({mean}; one-sided p {p:.2g}; {alone})" in made.notes[2]
