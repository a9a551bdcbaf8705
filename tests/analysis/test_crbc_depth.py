"""Table crbc-depth by hand."""

import numpy as np
import pytest
from scipy import stats

from analysis.data.sources import Source
from analysis.grid.artefact import artefacts
from analysis.output.build import build
from tests.stored_runs import in_block, write_run

DEPTHS = (0, 1, 2, 3, None)


def table(results):
    return build(artefacts()["crbc-depth"], Source(results), "laptop").table


def write(results, depth, block, rate):
    at = {"credit.name": "crbc", "credit.depth": depth, "env.name": "sokoban"} | in_block(block)
    study = "blocks" if depth is None else "crbc_depth"
    write_run(results, study, at, [[1, 0]], metrics={"train/success": rate})


@pytest.mark.parametrize("rise", [0.02, -0.02])
def test_the_slope_is_tested_over_six_blocks(tmp_path, rise):
    rng = np.random.default_rng(3)
    rates = 0.3 + rise * np.arange(5)[:, None] + 0.02 * rng.standard_normal((5, 6))
    for place, depth in enumerate(DEPTHS):
        for number in range(5):
            write(tmp_path, depth, 100 + number, rates[place, number])
    write(tmp_path, 0, 105, rates[0, 5])  # a block without the other depths
    assert table(tmp_path).facts == {} and [row[1].text for row in table(tmp_path).rows] == ["5"] * 5
    for place, depth in enumerate(DEPTHS):
        write(tmp_path, depth, 105, rates[place, 5])
        write(tmp_path, depth, 106, 0.9)  # a block that was not declared
    made = table(tmp_path)
    rows = [[getattr(cell, "text", cell) for cell in row] for row in made.rows]
    assert [row[:2] for row in rows] == [[name, "6"] for name in ("0", "1", "2", "3", "fixed point")]
    points = 100 * (rates[0] - rates[4])
    low, high = stats.ttest_1samp(points, 0).confidence_interval(0.95)
    assert rows[0][2] == f"{100 * rates[0].mean():.1f} ± {100 * rates[0].std(ddof=1):.1f}"
    assert rows[0][3] == f"{points.mean():z.1f} [{low:.1f}, {high:.1f}]" and rows[4][3] == "–"
    slopes = np.array([100 * stats.linregress(np.arange(5), rates[:, block]).slope for block in range(6)])
    low, high = stats.ttest_1samp(slopes, 0).confidence_interval(0.95)
    p = stats.ttest_1samp(slopes, 0, alternative="greater").pvalue
    mean, verdict = f"{slopes.mean():z.1f} [{low:.1f}, {high:.1f}]", "is positive" if rise > 0 else "is not positive"
    assert made.facts == {"crbc-depth/mean": mean, "crbc-depth/verdict": verdict}
    assert f"{verdict} ({mean}; one-sided p {p:.2g})" in made.notes[1]
