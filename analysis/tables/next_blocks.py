"""Tables next-claims and lab-gain: the tests of ``paper/next.yaml``, and gain beside success in training."""

import numpy as np
import pandas as pd

from analysis.claims.blocks import BASELINE, IN_BLOCKS, in_all, measured, measured_by_env, runs_in_blocks
from analysis.claims.declared import FIRST_SIX
from analysis.claims.next_blocks import FIRST, NEXT_MEASURES, OURS, ByBlock, NextTest, read_next_plan
from analysis.claims.prediction import over_settings
from analysis.contrast import Contrast
from analysis.data.lab import plan, recorded
from analysis.data.methods import environment_name, row_label
from analysis.data.rows import ROW_IN_BLOCKS
from analysis.data.runs import Run
from analysis.data.statistics import spearman
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins
from analysis.grid.table import NOT_RUN, Table


@artefact("next-claims", "table", study=("next",), key=ROW_IN_BLOCKS)
def next_claims(studies: Studies) -> Table:
    """Test what paper/next.yaml declares about Batch-BEPO."""
    runs = runs_in_blocks(studies, ("next",))
    judged = studies.tier != "smoke"
    return Table(
        "Batch-BEPO in new blocks: tests declared before the first of their runs (points of success).",
        ["Environment", "Measure", "Against", "Margin", "Blocks", "Difference", "Bound", "Verdict"],
        [_row(test, _differences(test, runs), judged) for test in read_next_plan().tests],
        [
            f"Declared in paper/next.yaml. Blocks: those trained of the first blocks from {FIRST} on that the test "
            "asks for. Speed: success in training over all updates. Unseen: success on held-out tasks in rooms that "
            "training does not see, in the last fifth of the updates. Difference: Batch-BEPO minus the other, mean "
            "with Student's 95 % interval. Bound: one-sided, 95 %. A test holds if the bound is above minus its "
            "margin. It is judged once, when its blocks are complete; until then no difference is shown.",
            *origins(runs),
        ],
        left=3,
    )


def _differences(test: NextTest, runs: list[Run]) -> ByBlock:
    own = [run for run in runs if run.env == test.env]
    ours, theirs = (
        {run.seed: NEXT_MEASURES[test.measure](run) for run in own if str(ROW_IN_BLOCKS.row(run)) == row}
        for row in (OURS, test.less)
    )
    return {block: ours[block] - theirs[block] for block in test.wanted if block in ours.keys() & theirs.keys()}


def _row(test: NextTest, by_block: ByBlock, judged: bool) -> list[str]:
    named = [environment_name(test.env), test.measure, row_label(test.less), f"{test.margin:g}"]
    verdict = test.verdict(by_block) if judged else "not judged"
    blocks = f"{len(by_block)} of {test.blocks}"
    if verdict in ("not run", "not judged"):
        return [*named, blocks, "–", "–", verdict]
    found = Contrast.over(list(by_block.values()))
    return [*named, blocks, found.text(), f"{found.lower_bound():.1f}", verdict]


@artefact("lab-gain", "table", study=IN_BLOCKS, key=ROW_IN_BLOCKS)
def lab_gain(studies: Studies) -> Table:
    """Compare gain with speed in blocks, by estimator and environment."""
    runs = runs_in_blocks(studies)
    scenes = {at.partition("like=")[2].split(" ")[0]: at for at in plan()["gain"]["at"]}
    by_env = measured_by_env(runs)
    speeds = {env: by_env.get(env, measured([]))["speed"] for env in scenes}
    named = plan()["gain"]["estimators"]
    told = {env: _correlations(at, speeds[env]) for env, at in scenes.items()}
    columns = [f"{environment_name(env)}, {part}" for env in scenes for part in ("gain", "in training")]
    return Table(
        "Gain in the lab with the dials of each environment, and success in training in blocks minus Gated-BEPO's.",
        ["Estimator", *columns],
        [
            [
                row_label(row),
                *(cell for env, at in scenes.items() for cell in _cells(at, words, row, speeds[env])),
            ]
            for words, row in named.items()
        ],
        [
            "Gain (docs/lab.md): the exact rise in success by an update of 32 trajectories of each policy and a KL "
            "of 0.1 a step, as a share of that along the true gradient; mean with Student's 95 % interval over 16 "
            "Sokoban boards of the training split, with the group size, the aliasing and the share of variance "
            "between tasks of the environment. In training: success over all updates (points) minus that of Gated- "
            "BEPO in the same blocks, mean with Student's 95 % interval, exploratory and not corrected.",
            f"Rank correlation with success in training in the blocks {FIRST_SIX[0]} to {FIRST_SIX[-1]}, with 95 % "
            "intervals over resampled estimators; positive if as predicted. "
            + "; ".join(f"{environment_name(env)}: {text}" for env, text in told.items())
            + ". Nothing was declared about these blocks.",
            *origins(runs),
        ],
    )


def _cells(at: str, words: str, row: str, speeds: pd.DataFrame) -> list[str]:
    gain = recorded("gain").values(at, words, "gain")
    ahead = Contrast.of(speeds, {row: 1, BASELINE: -1})
    return [
        "–" if gain is None else Contrast.over(gain).text(".3f"),
        "0" if row == BASELINE else ahead.text() if ahead.units > 2 else NOT_RUN,
    ]


def _correlations(at: str, speeds: pd.DataFrame) -> str:
    every = plan()["gain"]["estimators"].items()
    trained = in_all(speeds, FIRST_SIX)
    rows = {words: row for words, row in every if row in trained}
    if len(rows) < 5:
        return "too few runs"
    speed = trained[list(rows.values())].mean().to_numpy()
    parts = []
    for measure, sign in (("gain", 1), ("error", -1)):
        found = [recorded("gain").values(at, words, measure) for words in rows]
        own = sign * np.array([np.mean(x) for x in found if x is not None])
        interval = over_settings(own, speed).text(".2f", "")
        parts.append(f"{measure} {float(spearman(own, speed)):.2f} {interval}")
    return f"{', '.join(parts)} over {len(rows)} estimators"
