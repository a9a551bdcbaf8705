"""Table whole-methods: DAPO, Dr. GRPO and SAMPO beside estimators, for the same number of episodes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.claims.blocks import runs_in_blocks
from analysis.claims.looks import level
from analysis.data.methods import name_of
from analysis.data.rows import WHOLE, WHOLE_METHODS
from analysis.data.runs import Run, grouped
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.notes import origins, protocol
from analysis.grid.success import mean_of
from analysis.grid.table import NOT_RUN, Printed, Table
from analysis.tables.headroom import NO_CREDIT
from analysis.tables.in_blocks import Column

STUDIES = ("whole_methods", "blocks")
ROWS = (NO_CREDIT, "gigpo", "gated_bepo", "shrunk_bepo", *WHOLE_METHODS.values())


@artefact("whole-methods", "table", study=STUDIES, key=WHOLE)
def whole_methods(studies: Studies) -> Table:
    """Compare methods by their success in the first episodes, as many as the shortest run of a block has."""
    by_row = grouped((r for r in runs_in_blocks(studies, STUDIES) if WHOLE.row(r) in ROWS), lambda r: str(WHOLE.row(r)))
    run_of = {row: {run.seed: run for run in same} for row, same in by_row.items()}
    shared = sorted(set.intersection(*(set(run_of.get(row, {})) for row in ROWS)))
    used = [run_of[row][block] for row in ROWS for block in shared]
    fewest = {block: min(_episodes(run_of[row][block])[-1] for row in ROWS) for block in shared}
    speeds = pd.DataFrame({row: {block: _speed(run_of[row][block], fewest[block]) for block in shared} for row in ROWS})
    first = min(fewest.values(), default=0)
    rows: list[list[Printed | str]] = []
    for row in ROWS:
        runs = [run_of[row][block] for block in shared]
        columns = Column("", "own"), Column("", ("own", NO_CREDIT))
        speed = [column.cell({"speed": speeds}, row) if runs else NOT_RUN for column in columns]
        rows.append([name_of(row), str(len(runs)), *_totals(runs), *speed])
    return Table(
        "Whole methods on text Sokoban in blocks.",
        ["Method", "Blocks", "Episodes", "Level", "Speed by episodes", "Difference"],
        rows,
        [
            " ".join(protocol(studies.values(), used)),
            "Episodes: sampled in a run, in thousands. Level: success (%) on held-out tasks late in training, after "
            "more episodes if more are sampled. Speed by episodes: success in training (%) of the first "
            f"{first:.0f} episodes or more, in each block as many as its shortest run has. Difference: from GRPO in "
            "the same blocks, with Student's 95 % interval, not corrected. Exploratory.",
            *origins(used),
        ],
        used=used,
    )


def _totals(runs: Sequence[Run]) -> list[Printed | str]:
    if not runs:
        return [NOT_RUN, NOT_RUN]
    return [mean_of(np.array([_episodes(run)[-1] / 1000 for run in runs])), mean_of(np.array([level(r) for r in runs]))]


def _episodes(run: Run) -> np.ndarray:
    """Return the number of episodes sampled up to and including each update."""
    return np.cumsum(run.metrics["train/trajectories"].to_numpy())


def _speed(run: Run, episodes: float) -> float:
    """Return the success in training, in per cent, of the first ``episodes`` episodes; a last update counts in part."""
    until = np.minimum(_episodes(run), episodes)
    return 100 * float(np.average(run.metrics["train/success"], weights=np.diff(until, prepend=0)))
