"""Table lab-sampled: the error on games of ALFWorld and WebShop, and how fast language models learn there."""

from collections.abc import Mapping

import numpy as np

from analysis.claims.blocks import BASE, IN_BLOCKS, measured_by_env, runs_in_blocks
from analysis.claims.declared import FIRST_SIX
from analysis.claims.prediction import Prediction
from analysis.data.lab import plan, recorded
from analysis.data.methods import environment_name, row_label
from analysis.data.rows import BLOCKS
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import ByBlock, differences
from analysis.grid.notes import origins
from analysis.grid.success import mean_with_interval
from analysis.grid.table import NOT_RUN, Printed, Table

_HIDDEN = " keys=hidden"
_FEWEST = 3

Speeds = Mapping[str, ByBlock]
"""Success in training by row and block."""


@artefact("lab-sampled", "table", study=IN_BLOCKS, key=BLOCKS)
def lab_sampled(studies: Studies) -> Table:
    """Compare the error with sampled truth and speed in blocks, by estimator, on ALFWorld and WebShop."""
    every, of_rows = runs_in_blocks(studies), plan()["sampled"]["estimators"]
    games = {at.split(" ")[0]: at for at in plan()["sampled"]["at"] if _HIDDEN not in at}
    by_env = measured_by_env(every)
    speeds = {env: {row: of["speed"] for row, of in by_env.get(env, {}).items()} for env in games}
    columns = [f"{environment_name(env)}, {part}" for env in games for part in ("as seen", "hidden", "in training")]
    found = {env: _correlation(games[env], speeds[env]) for env in games}
    return Table(
        "Error on games of ALFWorld and WebShop, and success in training in blocks minus Gated-BEPO's.",
        ["Estimator", *columns],
        [
            [row_label(row), *(cell for env, at in games.items() for cell in _cells(words, row, at, speeds[env]))]
            for words, row in of_rows.items()
        ],
        [
            "Error (docs/lab.md): the share of the true advantage's square that is missed after the best scale, mean "
            "over 12 games with Student's 95 % interval. The truth is sampled by continuations. As seen: states are "
            "equal that look alike to the agent. Hidden: those that are the same in the engine. In training: success "
            "over all updates (points) minus that of Gated-BEPO in the same blocks, mean with Student's 95 % interval, "
            "exploratory and not corrected.",
            "Rank correlation of the error as seen with success in training, positive if a smaller error goes with "
            f"faster learning: {'; '.join(_told(env, one) for env, one in found.items())}. Settings: those with all of "
            f"the blocks {FIRST_SIX[0]} to {FIRST_SIX[-1]}. The interval is over resampled blocks, for these settings; "
            "p is one-sided, by permuting settings. Nothing was declared about it.",
            *origins([run for run in every if run.env in games]),
        ],
        facts={f"lab/sampled/{env}": _number(one) for env, one in found.items() if one is not None},
    )


def _cells(words: str, row: str, at: str, speeds: Speeds) -> list[Printed | str]:
    errors = [recorded("sampled").values(where, words) for where in (at, at + _HIDDEN)]
    told = ["–" if own is None else mean_with_interval(own, ".3f") for own in errors]
    ahead = np.array(list(differences(speeds.get(row, {}), speeds.get(BASE, {})).values()))
    return [*told, "0" if row == BASE else mean_with_interval(ahead) if len(ahead) >= _FEWEST else NOT_RUN]


def _correlation(at: str, speeds: Speeds) -> Prediction | None:
    """Return the correlation over the settings that have all first blocks; None for fewer than three."""
    errors = {row: recorded("sampled").values(at, words) for words, row in plan()["sampled"]["estimators"].items()}
    both = {row: x for row, x in errors.items() if x is not None and set(FIRST_SIX) <= set(speeds.get(row, {}))}
    if len(both) < _FEWEST:
        return None
    table = np.array([[speeds[row][block] for block in FIRST_SIX] for row in both])
    return Prediction("error", "sampled", False, np.array([x.mean() for x in both.values()]), list(FIRST_SIX), table)


def _told(env: str, one: Prediction | None) -> str:
    if one is None:
        return f"{environment_name(env)} too few runs"
    p = Printed(Estimate(one.p), ".2g").text
    return f"{environment_name(env)} {_number(one)} over {len(one.fidelity)} settings (p {p})"


def _number(one: Prediction) -> str:
    return f"{one.correlation:.2f} {one.interval.text('.2f', '')}"
