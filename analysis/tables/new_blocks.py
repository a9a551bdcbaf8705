"""Tables of new blocks: next-claims, next-order, next-groups, desktop-claims; and lab-gain, gain beside training."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pandas as pd

from analysis.claims.blocks import IN_BLOCKS, in_all, measured, measured_by_env, runs_in_blocks
from analysis.claims.declared import FIRST_SIX, DeclaredTest
from analysis.claims.looks import MEASURES_OF_TESTS
from analysis.claims.new_blocks import (
    DESKTOP,
    NEXT,
    OURS,
    Correlation,
    DesktopOrder,
    lab_setting,
    predicted_by_lab,
    read_plan,
)
from analysis.claims.prediction import ALL_BLOCKS
from analysis.contrast import Contrast, weighted
from analysis.data.cache import digest_of
from analysis.data.lab import plan, recorded
from analysis.data.methods import environment_name, row_label
from analysis.data.rows import BASELINE, ROW_IN_BLOCKS
from analysis.data.runs import Run
from analysis.data.sources import Source
from analysis.data.studies import Studies
from analysis.grid.artefact import Artefact, artefact
from analysis.grid.notes import origins
from analysis.grid.table import NOT_RUN, Table

NOT_JUDGED = "not judged"
TINY = "laptop"
"""The tier of the tiny model's runs."""
ENVIRONMENTS = ("sokoban", "webshop", "alfworld")


@artefact("next-claims", "table", study=("next",), key=ROW_IN_BLOCKS)
def next_claims(studies: Studies) -> Table:
    """Test what paper/next.yaml declares about Batch-BEPO."""
    runs, tests = runs_in_blocks(studies, ("next",)), read_plan(NEXT)[0]
    judged = [_judged(test.test, runs, studies.tier, early=False) for test in tests]
    verdicts = Counter(cells[-1] for cells in judged)
    return Table(
        "Batch-BEPO in new blocks: tests declared before the first of their runs (points of success).",
        ["Environment", "Measure", "Against", "Margin", "Blocks", "Difference", "Bound", "Verdict"],
        [
            [environment_name(test.env), test.measure, row_label(test.less), f"{test.margin:g}", *cells]
            for test, cells in zip(tests, judged)
        ],
        [
            f"Declared in paper/next.yaml. Blocks: those trained of the first blocks from {tests[0].first} on that the "
            "test asks for. Speed: success in training over all updates. Unseen: success on held-out tasks in rooms "
            "that training does not see, in the last fifth of the updates. Difference: Batch-BEPO minus the other, "
            "mean with Student's 95 % interval. Bound: one-sided, 95 %. A test holds if the bound is above minus its "
            "margin. It is judged once, when its blocks are complete; until then no difference is shown.",
            *origins(runs),
        ],
        used=runs,
        left=3,
        facts={"next/judged": f"{verdicts['holds'] + verdicts['not shown']}", "next/holds": f"{verdicts['holds']}"},
    )


def _judged(test: DeclaredTest, runs: Sequence[Run], tier: str, early: bool) -> list[str]:
    """Return the cells Blocks, Difference, Bound and Verdict. ``early``: show the difference before the verdict."""
    in_env = [run for run in runs if run.env == test.env and ROW_IN_BLOCKS.row(run) in test.weights]
    judged = test.on(tier, measured(in_env, measures={test.measure: MEASURES_OF_TESTS[test.measure]})[test.measure])
    blocks, difference = f"{len(judged.points)} of {judged.asked}", judged.contrast.text()
    if judged.is_decided:
        return [blocks, difference, f"{judged.contrast.lower_bound():.1f}", judged.verdict]
    some = tier == "smoke" or len(judged.points)
    return [blocks, difference if early else "–", "–", NOT_JUDGED if some else "not run"]


class BesideTiny(Artefact):
    """An artefact that takes the runs in blocks of the tiny model, too, whatever its tier is."""

    def load(self, source: Source, tier: str, allow_mixed: bool = False) -> Studies:
        """Return study desktop at the tier, and the studies in blocks at tier laptop."""
        tiny = {name: source.study(name, TINY, ROW_IN_BLOCKS, allow_mixed) for name in IN_BLOCKS}
        return Studies({**super().load(source, tier, allow_mixed), **tiny})

    def digest(self, source: Source, tier: str) -> str:
        """Return the digest of the runs at both tiers."""
        return super().digest(source, tier) + digest_of(source, IN_BLOCKS, TINY)


@artefact("desktop-claims", "table", study=("desktop",), key=ROW_IN_BLOCKS, of=BesideTiny)
def desktop_claims(studies: Studies) -> Table:
    """Test what paper/desktop.yaml declares about pretrained weights."""
    runs, (tests, parts) = runs_in_blocks(studies, ("desktop",)), read_plan(DESKTOP)
    tiny = runs_in_blocks(studies, IN_BLOCKS)
    rows = []
    for test in tests:
        before = _judged(replace(test.test, blocks=(ALL_BLOCKS[0], ALL_BLOCKS[-1])), tiny, TINY, early=True)
        cells = _judged(test.test, runs, studies.tier, early=True)
        rows.append([f"{row_label(test.more)} over {row_label(test.less)}", *cells, f"{before[1]} ({before[0]})"])
    order, speeds = _order(parts["order"], runs, tiny)
    told = [f"{len(order)} of {len(parts['order'].methods)} methods", "–", "–", NOT_JUDGED if runs else "not run", "–"]
    if len(order) >= parts["order"].least_methods and studies.tier != "smoke":
        correlation = Correlation.of(list(order.values()), [speeds[row] for row in order])
        told[1:4] = correlation.text, "–", "carries over" if correlation.is_positive else "not shown"
    said = [f"{test} {gap} in {blocks} blocks: {verdict}" for test, blocks, gap, _, verdict, _ in rows]
    if told[1] != "–":
        said.append(f"the order of {len(order)} methods beside that of the tiny model {told[1]} (rank): {told[3]}")
    return Table(
        "Pretrained weights (SmolLM2-135M) in blocks: tests declared before the first run of a block (points).",
        ["Test", "Blocks", "Result", "Bound", "Verdict", "Tiny model"],
        [*rows, ["Order of methods", *told]],
        [
            f"Declared in paper/desktop.yaml, text Sokoban. Success in training over all updates, in blocks from "
            f"{tests[0].first} on: mean difference with Student's 95 % interval. Bound: one-sided, 95 %; a test holds "
            "if it is above 0. Judged once, when all blocks are there. Order: Spearman's correlation of the tiny "
            f"model's success in training (blocks {FIRST_SIX[0]} to {FIRST_SIX[-1]}) with that of pretrained weights, "
            f"over methods with the same {parts['order'].least_blocks} blocks or more, with the 95 % interval over "
            "resampled methods; the order carries over if it lies above 0. Tiny model: the same difference at tier "
            f"{TINY}, over {len(ALL_BLOCKS)} blocks.",
            *origins([*runs, *tiny]),
        ],
        used=runs,
        left=1,
        facts={"desktop/said": "; ".join(said)},
    )


def _order(order: DesktopOrder, runs: Sequence[Run], tiny: Sequence[Run]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the speed of the tiny model and of pretrained weights, by row, for the rows that count."""
    pretrained, small = (
        measured([run for run in group if run.env == "sokoban"])["speed"].reindex(columns=list(order.methods))
        for group in (runs, tiny)
    )
    small = in_all(small, FIRST_SIX)
    counted = pretrained.loc[:, pretrained.notna().sum() >= order.least_blocks]
    shared = counted.dropna()
    rows = [row for row in counted if row in small] if len(shared) >= order.least_blocks else []
    return _means(small, rows), _means(shared, rows)


def _means(table: pd.DataFrame, rows: Iterable[str]) -> dict[str, float]:
    """Return the mean over blocks of those of ``rows`` that a table of blocks by rows has."""
    return {row: float(table[row].to_numpy(float).mean()) for row in rows if row in table}


@artefact("lab-gain", "table", study=IN_BLOCKS, key=ROW_IN_BLOCKS)
def lab_gain(studies: Studies) -> Table:
    """Compare gain with speed in blocks, by estimator and environment."""
    runs = runs_in_blocks(studies)
    scenes = {env: lab_setting(env) for env in ENVIRONMENTS}
    by_env = measured_by_env(runs)
    speeds = {env: by_env.get(env, measured([]))["speed"] for env in scenes}
    named = plan()["gain"]["estimators"]
    told = {env: _correlations(env, speeds[env]) for env in scenes}
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
            "between tasks of the environment. In training: success over all updates (points) minus that of "
            "Gated-BEPO in the same blocks, mean with Student's 95 % interval, exploratory and not corrected.",
            f"Rank correlation with success in training in the blocks {FIRST_SIX[0]} to {FIRST_SIX[-1]}, with 95 % "
            "intervals over resampled estimators; positive if as predicted. "
            + "; ".join(f"{environment_name(env)}: {text}" for env, text in told.items())
            + ". Nothing was declared about these blocks.",
            *origins(runs),
        ],
        used=runs,
    )


def _cells(at: str, words: str, row: str, speeds: pd.DataFrame) -> list[str]:
    gain = recorded("gain").values(at, words, "gain")
    ahead = Contrast.of(speeds, {row: 1, BASELINE: -1})
    return [
        "–" if gain is None else Contrast.over(gain).text(".3f"),
        "0" if row == BASELINE else ahead.text() if ahead.units > 2 else NOT_RUN,
    ]


def _correlations(env: str, speeds: pd.DataFrame) -> str:
    means = _means(in_all(speeds, FIRST_SIX), plan()["gain"]["estimators"].values())
    if len(means) < 5:
        return "too few runs"
    told = ", ".join(f"{measure} {predicted_by_lab(env, measure, means).text}" for measure in ("gain", "error"))
    return f"{told} over {len(means)} estimators"


def _counted(runs: Sequence[Run], blocks: Collection[int], rows: Collection[str]) -> list[Run]:
    """Return the runs of these rows in these blocks."""
    return [run for run in runs if run.seed in blocks and ROW_IN_BLOCKS.row(run) in rows]


@artefact("next-order", "table", study=("next",), key=ROW_IN_BLOCKS)
def next_order(studies: Studies) -> Table:
    """Test whether gain in the lab predicts success in training in new blocks."""
    order, judged = read_plan(NEXT)[1]["order"], studies.tier != "smoke"
    runs = _counted(runs_in_blocks(studies, ("next",)), order.blocks, order.estimators)
    by_env = measured_by_env(runs)
    rows = []
    for env in ENVIRONMENTS:
        means = _means(in_all(by_env.get(env, measured([]))["speed"], order.blocks), order.estimators)
        cells = ["–", "–", "not run" if judged else NOT_JUDGED]
        if judged and len(means) == len(order.estimators):
            gain, error = predicted_by_lab(env, "gain", means), predicted_by_lab(env, "error", means)
            cells = [gain.text, error.text, "predicts learning" if gain.is_positive else "not shown"]
        rows.append([environment_name(env), f"{len(means)} of {len(order.estimators)}", *cells])
    return Table(
        "Does gain in the lab predict how fast estimators learn? Declared before the runs.",
        ["Environment", "Estimators", "Gain", "Error", "Verdict"],
        rows,
        [
            f"Declared in paper/next.yaml. Spearman's correlation over {len(order.estimators)} estimators of a measure "
            "of the lab, with the dials of the environment, with success in training over all updates, averaged over "
            f"the blocks {' and '.join(map(str, order.blocks))}; positive if as predicted. In brackets the 95 % "
            "interval over resampled estimators. Gain predicts learning if its interval lies above 0; the error has "
            "no verdict. Judged once, when all runs are there.",
            *origins(runs),
        ],
        used=runs,
        left=1,
    )


@artefact("next-groups", "table", study=("next", "next_groups"), key=ROW_IN_BLOCKS)
def next_groups(studies: Studies) -> Table:
    """Test whether what is ahead of GRPO in pairs on WebShop is so in groups of eight."""
    groups, judged = read_plan(NEXT)[1]["groups"], studies.tier != "smoke"
    wanted = (*groups.methods, OURS, groups.base)
    pairs_runs, eights_runs = (
        [run for run in _counted(runs_in_blocks(studies, (name,)), groups.blocks, wanted) if run.env == "webshop"]
        for name in ("next", "next_groups")
    )
    pairs, eights = measured(pairs_runs)["speed"], measured(eights_runs)["speed"]
    eights = eights.reindex(index=pairs.index.union(eights.index))
    if "ppo" in pairs:  # each trajectory of PPO is of another task, so its run is the same in both
        eights["ppo"] = pairs["ppo"]
    rows = []
    for method in (*groups.methods, OURS):
        difference = {method: 1, groups.base: -1}
        improvements = [weighted(table, difference, groups.blocks) for table in (pairs, eights)]
        shared = improvements[0].index.intersection(improvements[1].index)
        named = [row_label(method), f"{len(shared)} of {len(groups.blocks)}"]
        if not judged or len(shared) < len(groups.blocks):
            rows.append([*named, *["–"] * 3, *["not run" if judged else NOT_JUDGED] * 2])
            continue
        in_pairs, in_eights = (Contrast.over(improvement[shared]) for improvement in improvements)
        smaller = Contrast.over(improvements[0][shared] - improvements[1][shared])
        verdicts = ["none declared"] * 2
        if method in groups.methods:
            gone = Contrast.over(groups.margin - improvements[1][shared])
            verdicts = ["holds" if test.lower_bound() > 0 else "not shown" for test in (smaller, gone)]
        rows.append([*named, in_pairs.text(), in_eights.text(), smaller.text(), *verdicts])
    return Table(
        f"Do improvements over {row_label(groups.base)} on WebShop vanish in groups of eight? "
        "Declared before the runs.",
        ["Method", "Blocks", "Improvement in pairs", "Improvement in eights", "Change", "Smaller", "Gone"],
        rows,
        [
            f"Declared in paper/next.yaml. Success in training over all updates minus that of {row_label(groups.base)} "
            "(points), with 32 groups of two and with 8 groups of eight; mean with Student's 95 % interval. "
            "Smaller: the improvement in pairs minus that in eights is above 0. Gone: that in eights is below "
            f"{groups.margin:g} points. Both one-sided, level 0.05. PPO's run is the same in both. Groups of eight see "
            "a quarter of the tasks, which is part of the change.",
            *origins([*pairs_runs, *eights_runs]),
        ],
        used=[*pairs_runs, *eights_runs],
        left=1,
    )
