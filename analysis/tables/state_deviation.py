"""Table state-deviation: the declared test of docs/lab.md, whether division by a state's deviation slows learning."""

import numpy as np

from analysis.claims.blocks import runs_in_blocks
from analysis.claims.declared import Verdict
from analysis.claims.looks import speed
from analysis.data.methods import name_of
from analysis.data.rows import DEVIATION
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, paired
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of, mean_with_interval
from analysis.grid.table import NOT_RUN, Printed, Table

STUDIES = ("frontier", "state_deviation")
METHODS = ("graft", "graphhca", "g2po")
OVERALL = "Mean over methods"
DECLARED = range(101, 106)


@artefact("state-deviation", "table", study=STUDIES, key=DEVIATION)
def state_deviation(studies: Studies) -> Table:
    """Compare each method with and without the division, in the declared blocks that all of them have."""
    runs = [run for run in runs_in_blocks(studies, STUDIES) if run.method in METHODS and run.seed in DECLARED]
    by_row = {row: {run.seed: speed(run) for run in own} for row, own in grouped(runs, DEVIATION.row).items()}
    pairs = {name: (by_row.get(name, {}), by_row.get(f"{name} std=none", {})) for name in METHODS}
    shared = sorted(set.intersection(*(set(own) for pair in pairs.values() for own in pair)))
    means = [{block: float(np.mean([pair[i][block] for pair in pairs.values()])) for block in shared} for i in (0, 1)]
    verdict = Verdict(paired(means[1], means[0]), DECLARED)
    text, facts = _told(verdict) if studies.tier != "smoke" else ("Not judged.", {})
    rows = {name_of(name): [{block: own[block] for block in shared} for own in pair] for name, pair in pairs.items()}
    return Table(
        "Step terms with and without division by the deviation within a state, on ALFWorld in blocks.",
        ["Method", "Blocks", "With", "Without", "Difference"],
        [[name, str(len(shared)), *_numbers(*own)] for name, own in (rows | {OVERALL: means}).items()],
        [
            " ".join(protocol(studies.values(), runs)),
            "Success in training (%), averaged over all updates: mean over blocks ± one sample standard deviation. "
            f"Difference: with Student's 95 % interval. Declared in docs/lab.md before these runs: {text}",
            *origins(runs),
        ],
        facts=facts,
    )


def _numbers(divided: ByBlock, centred: ByBlock) -> list[Printed | str]:
    if not divided:
        return [NOT_RUN, NOT_RUN, "–"]
    means = (mean_of(np.array(list(own.values()))) for own in (divided, centred))
    return [*means, mean_with_interval(paired(centred, divided))]


def _told(verdict: Verdict) -> tuple[str, dict[str, str]]:
    """Return a sentence about the test, and the facts for the paper's text."""
    if verdict.is_positive is None:
        return f"speed is tested with {len(DECLARED)} blocks; {len(verdict.points)} have all runs.", {}
    word = "faster" if verdict.is_positive else "not faster"
    facts = {"state-deviation/difference": verdict.mean, "state-deviation/verdict": word}
    return f"without it learning is {word}, by {verdict.mean} points (one-sided p {verdict.p}).", facts
