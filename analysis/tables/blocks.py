"""Tables blocks-claims and blocks-methods: the primary claims about blocks, and every method beside Gated-BEPO."""

from collections.abc import Mapping, Sequence

import pandas as pd
from scipy.special import fdtrc

from analysis.claims.blocks import (
    CLAIMED,
    IN_BLOCKS,
    measured,
    runs_in_blocks,
    tested_claims,
)
from analysis.claims.looks import BLOCK_MEASURES, BlockClaim, Plan, Tested, read_plan
from analysis.contrast import Contrast, weighted
from analysis.data.methods import environment_name, ordered, row_label
from analysis.data.rows import BASELINE, METHOD, OBSERVATIONS, ROW_IN_BLOCKS, VARIANT, RowKey
from analysis.data.runs import Run, grouped
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies, StudyRuns, select
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import FEWEST
from analysis.grid.notes import origins, protocol
from analysis.grid.table import NOT_RUN, Printed, Table
from analysis.tables.headroom import oracles
from analysis.tables.in_blocks import Column

_COLUMNS = [Column("", of, measure) for measure in BLOCK_MEASURES for of in ("own", ("own", BASELINE))]
ONE_START = ("main_sokoban_text", "replication", "main_alfworld", "main_webshop", "headroom")
_VARIANTS: Mapping[str, RowKey] = {
    **dict.fromkeys(
        ("component_ablation", "gate_thresholds", "iteration_budget", "gae_lambda", "backup_operator"), VARIANT
    ),
    "observation_aliasing": OBSERVATIONS,  # GraphGPO on ALFWorld
}
KEYS: Mapping[str, RowKey] = {**dict.fromkeys(IN_BLOCKS, ROW_IN_BLOCKS), **dict.fromkeys(ONE_START, METHOD)}


@artefact("blocks-claims", "table", study=CLAIMED, key=ROW_IN_BLOCKS)
def blocks_claims(studies: Studies) -> Table:
    """Test the claims that paper/blocks.yaml declares."""
    plan = read_plan()
    used = runs_in_blocks(studies, CLAIMED)
    tested = tested_claims(plan, used)
    judged = studies.tier != "smoke"
    verdicts = [_verdict(plan, result) if judged else "not judged" for result in tested]
    differences = [_difference(result) for result in tested]
    rows = [
        [*_named(result.claim), str(len(result.values)), difference, _p(result), verdict]
        for result, difference, verdict in zip(tested, differences, verdicts)
    ]
    looks = "; ".join(f"{look.blocks} blocks, {100 * look.level:g} %" for look in plan.looks)
    wanted = _to_train(plan, tested)
    return Table(
        "Primary claims about blocks, declared before the first block was trained (points of success).",
        ["Environment", "Measure", "Claim", "Expected by", "Blocks", "Difference", "p", "Verdict"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "A block is a warm start, a task order and a training seed that all methods share. Speed: success in "
            "training, averaged over all updates. Level: success on all held-out tasks, averaged over the five "
            "evaluations of the last fifth of the updates. Difference: mean over blocks with Student's 95 % interval "
            "(table blocks-methods tests whether it depends on the start). p is two-sided. Interval and p are not "
            "corrected. The verdicts are: at each look, Holm's procedure over "
            f"the claims that no earlier look decided ({looks}).",
            *([f"Undecided claims need more blocks of: {'; '.join(wanted)}."] if wanted else []),
            *origins(used),
        ],
        used=used,
        left=4,
        facts=_facts(tested, differences, verdicts),
    )


@artefact("blocks-methods", "table", study={**KEYS, **_VARIANTS})
def blocks_methods(studies: Studies) -> Table:
    """Compare every method and variant with Gated-BEPO in the blocks that both have."""
    rows, used = [], runs_in_blocks(studies)
    others = [run for name in (*ONE_START, *_VARIANTS) for run in studies[name].runs if run.model == "small"]
    alike = select(StudyRuns("blocks", studies.tier, key=VARIANT), _with_credit_of(used, others)).runs
    for env, of_env in grouped(sorted(used, key=lambda run: run.env), lambda run: run.env).items():
        frames, updates = measured(of_env), of_env[0].updates
        one_start = early_speed([run for run in alike if run.env == env], updates)
        for name in ordered(frames["speed"]):
            numbers = [column.cell(frames, name) for column in _COLUMNS]
            blocks = str(frames["speed"][name].count())
            rows.append(
                [environment_name(env), row_label(name), blocks, *numbers, _start(frames["speed"], name, one_start)]
            )
    return Table(
        "Methods and variants of Gated-BEPO in blocks (success, %), and their differences from Gated-BEPO.",
        ["Environment", "Method", "Blocks", "Speed", "Difference", "Level", "Difference", "Start by method"],
        rows,
        [
            " ".join(protocol([studies[name] for name in IN_BLOCKS], used)),
            "Speed and level: mean over blocks ± one sample standard deviation. Difference: from Gated-BEPO in the "
            "same blocks, mean with Student's 95 % interval, not corrected. Exploratory, except for the claims of "
            "table blocks-claims. Start by method: the deviation of the difference in speed over blocks / over "
            "training seeds of one warm start (the published runs, cut to as many updates), and the one-sided p of an "
            "F test that the first is larger: that the difference depends on the start. It assumes that training seeds "
            "vary as much from every start. A dash: fewer than three runs from one start with the row's credit and "
            "loss. The level is not tested so: runs from one start have no late evaluations.",
            *oracles(used),
            *origins(used),
        ],
        used=used,
        left=2,
    )


def _with_credit_of(runs: Sequence[Run], others: Sequence[Run]) -> list[Run]:
    """Return the ``others`` whose credit and loss are those of their row in ``runs``, each once."""
    wanted = {(run.env, ROW_IN_BLOCKS.row(run)): _credit(run) for run in runs}
    return [
        run
        for run in {other.id: other for other in others}.values()
        if wanted.get((run.env, VARIANT.row(run))) == _credit(run)
    ]


def _credit(run: Run) -> Mapping[str, object]:
    return {name: value for name, value in run.settings.items() if name.startswith(("credit.", "loss."))}


def early_speed(runs: Sequence[Run], updates: int) -> pd.DataFrame:
    """Return the success in training over the first ``updates`` updates: training seeds by rows."""
    by_row: dict[str, dict[int, float]] = {}
    for run in runs:
        if "train/success" in run.metrics and run.updates >= updates:
            rates = run.metrics["train/success"].to_numpy(float)[:updates]
            by_row.setdefault(str(VARIANT.row(run)), {})[run.seed] = 100 * float(rates.mean())
    return pd.DataFrame(by_row, dtype=float)


def _start(in_blocks: pd.DataFrame, name: str, one_start: pd.DataFrame) -> str:
    over_blocks, over_seeds = (weighted(table, {name: 1, BASELINE: -1}) for table in (in_blocks, one_start))
    if name == BASELINE or min(len(over_blocks), len(over_seeds)) < FEWEST:
        return "–"
    of_blocks, of_seeds = over_blocks.std(ddof=1), over_seeds.std(ddof=1)
    p = fdtrc(len(over_blocks) - 1, len(over_seeds) - 1, (of_blocks / of_seeds) ** 2)
    return f"{of_blocks:.1f} / {of_seeds:.1f}, p {p:.2g}"


def _named(claim: BlockClaim) -> list[str]:
    return [
        environment_name(claim.env),
        claim.measure,
        f"{row_label(claim.more)} > {row_label(claim.less)}",
        claim.source,
    ]


def _difference(result: Tested) -> str:
    return Contrast.over(result.values).text(none=NOT_RUN)


def _p(result: Tested) -> Printed | str:
    return Printed(Estimate(result.p), ".2g") if len(result.values) else NOT_RUN


def _facts(tested: Sequence[Tested], differences: Sequence[str], verdicts: Sequence[str]) -> dict[str, str]:
    """Return the number of claims, and each claim's difference and verdict, for the paper's running text."""
    facts = {"blocks/claims": str(len(tested)), "blocks/decided": str(sum(test.look is not None for test in tested))}
    for test, difference, verdict in zip(tested, differences, verdicts):
        facts[f"blocks/{test.claim.id}/difference"], facts[f"blocks/{test.claim.id}/verdict"] = difference, verdict
    return facts


def _verdict(plan: Plan, result: Tested) -> str:
    if result.look is None:
        return result.verdict if len(result.values) >= plan.looks[0].blocks else "no look yet"
    return f"{result.verdict} (at {result.look.blocks} blocks)"


def _to_train(plan: Plan, tested: Sequence[Tested]) -> list[str]:
    """Return the rows that must still train, by environment: those of undecided claims that lack blocks."""
    open_claims = [result.claim for result in tested if result.look is None and len(result.values) < len(plan.blocks)]
    by_env = grouped(open_claims, lambda claim: claim.env)
    labels = {env: {row_label(n) for claim in of for n in (claim.more, claim.less)} for env, of in by_env.items()}
    return [f"{environment_name(env)}: {', '.join(sorted(names))}" for env, names in labels.items()]
