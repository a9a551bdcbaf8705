"""Table state-deviation: the declared test of docs/lab.md, whether division by a state's deviation slows learning."""

import numpy as np

from analysis.claims.blocks import runs_in_blocks
from analysis.claims.declared import OVERALL, DeclaredTest
from analysis.claims.looks import speed
from analysis.contrast import Contrast
from analysis.data.methods import marked_name
from analysis.data.rows import DEVIATION
from analysis.data.runs import grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, differences, paired
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of
from analysis.grid.table import NOT_RUN, Printed, Table

STUDIES = ("frontier", "state_deviation")
METHODS = ("graft", "graphhca", "g2po")
TESTED, UNSEEN = range(101, 106), range(103, 106)


@artefact("state-deviation", "table", study=STUDIES, key=DEVIATION)
def state_deviation(studies: Studies) -> Table:
    """Compare each method with and without the division, in the declared blocks that all of them have."""
    runs = [run for run in runs_in_blocks(studies, STUDIES) if run.method in METHODS and run.seed in TESTED]
    by_row = {row: {run.seed: speed(run) for run in own} for row, own in grouped(runs, DEVIATION.row).items()}
    pairs = {name: (by_row.get(name, {}), by_row.get(f"{name} std=none", {})) for name in METHODS}
    shared = sorted(set.intersection(*(set(own) for pair in pairs.values() for own in pair)))
    means = [{block: float(np.mean([pair[i][block] for pair in pairs.values()])) for block in shared} for i in (0, 1)]
    words = ("is higher", "is not higher")
    test = DeclaredTest("state-deviation", studies.tier, differences(means[1], means[0]), words, TESTED, UNSEEN)
    rows = {
        marked_name(name): [{block: own[block] for block in shared} for own in pair] for name, pair in pairs.items()
    }
    return Table(
        "Three estimators with and without division of the step term by its deviation, on ALFWorld in blocks.",
        ["Method", "Blocks", "With", "Without", "Difference"],
        [[name, str(len(shared)), *_numbers(*own)] for name, own in (rows | {OVERALL: means}).items()],
        [
            " ".join(protocol(studies.values(), runs)),
            "Success in training (%), averaged over all updates: mean over blocks ± one sample standard deviation. "
            "Difference: with Student's 95 % interval. Without: std=none leaves out the deviation of the step term, "
            "also GRAFT's sign in states that are visited once, and those of G2PO's other two terms. GraphHCA's "
            "outcome term keeps its own.",
            "Declared in docs/lab.md before a run in these blocks had it: the speed of the mean over methods without "
            f"the divisions {test.told}.",
            *origins(runs),
        ],
        facts=test.facts,
    )


def _numbers(divided: ByBlock, centred: ByBlock) -> list[Printed | str]:
    if not divided:
        return [NOT_RUN, NOT_RUN, "–"]
    means = (mean_of(np.array(list(own.values()))) for own in (divided, centred))
    return [*means, Contrast.over(paired(centred, divided)).text()]
