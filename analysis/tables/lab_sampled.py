"""Table lab-sampled: error and gain on games of ALFWorld and WebShop, and how fast language models learn there."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.claims.blocks import IN_BLOCKS, in_all, measured, measured_by_env, runs_in_blocks
from analysis.claims.declared import FIRST_SIX
from analysis.claims.prediction import Prediction
from analysis.contrast import Contrast
from analysis.data.lab import plan, recorded
from analysis.data.methods import environment_name, row_label
from analysis.data.rows import BASELINE, ROW_IN_BLOCKS
from analysis.data.statistics import Estimate
from analysis.data.studies import Studies
from analysis.grid.artefact import artefact
from analysis.grid.contrasts import FEWEST
from analysis.grid.notes import origins
from analysis.grid.table import NOT_RUN, Printed, Table

_HIDDEN, _SIZE = " keys=hidden", " group_size="
_MEASURES = ("error", "gain")


@artefact("lab-sampled", "table", study=IN_BLOCKS, key=ROW_IN_BLOCKS)
def lab_sampled(studies: Studies) -> Table:
    """Compare error and gain with sampled truth and speed in blocks, by estimator, on ALFWorld and WebShop."""
    shown = {*plan()["sampled"]["estimators"].values()}
    every = [run for run in runs_in_blocks(studies) if ROW_IN_BLOCKS.row(run) in shown]
    seen = [at for at in plan()["sampled"]["at"] if _HIDDEN not in at]
    games = {at.split(" ")[0]: at for at in seen if _SIZE in at}
    of_eight = {at.split(" ")[0]: at for at in seen if _SIZE not in at}
    by_env = measured_by_env(every)
    trained = {env: by_env.get(env, measured([]))["speed"] for env in games}
    told = {m: {env: _told(_correlation(m, at, trained[env])) for env, at in games.items()} for m in _MEASURES}
    of_eight = {env: _told(_correlation("error", at, trained[env])) for env, at in of_eight.items()}
    sizes = " and ".join(at.partition(_SIZE)[2].split(" ")[0] for at in games.values())
    parts = ("error", "error, hidden", "gain", "in training")
    return Table(
        "Error and gain on games of ALFWorld and WebShop, and success in training in blocks minus Gated-BEPO's.",
        ["Estimator", *(f"{environment_name(env)}, {part}" for env in games for part in parts)],
        [
            [row_label(row), *(cell for env, at in games.items() for cell in _cells(words, row, at, trained[env]))]
            for words, row in plan()["sampled"]["estimators"].items()
        ],
        [
            "Error (docs/lab.md): the share of the true advantage's square that is missed after the best scale, mean "
            "with Student's 95 % interval over the games in which some true advantage is not 0 "
            f"({_listed({env: _games(at) for env, at in games.items()})}). Gain: the rise in success, to first order, "
            "by an update of 32 trajectories of a game and a KL of 0.1 a step, as a share of that by their sampled "
            "true advantages, mean with Student's 95 % interval over games. The rise is measured on trajectories that "
            f"the update did not see. Groups are as large as in training ({sizes} trajectories). The truth is sampled "
            "by continuations. States are equal that look alike to the agent; hidden: those that are the same in the "
            "engine. In training: success over all updates (points) minus that of Gated-BEPO in the same blocks, mean "
            "with Student's 95 % interval, exploratory and not corrected.",
            "Rank correlation with success in training, positive if a smaller error goes with faster learning: "
            f"{_listed(told['error'])}. If the error is measured in groups of 8, as was done first: "
            f"{_listed(of_eight)}. Positive if a larger gain goes with faster learning: {_listed(told['gain'])}. "
            f"Settings: those with all of the blocks {FIRST_SIX[0]} to {FIRST_SIX[-1]}. Intervals are over resampled "
            "blocks, for these settings, and over resampled settings; p is one-sided, by permuting settings. "
            "Nothing was declared about it.",
            *origins([run for run in every if run.env in games]),
        ],
        used=[run for run in every if run.env in games],
        facts={
            f"lab/sampled/{env}{'' if measure == 'error' else f'/{measure}'}": text
            for measure, by_env in told.items()
            for env, text in by_env.items()
        },
    )


def _listed(by_env: Mapping[str, str]) -> str:
    return "; ".join(f"{environment_name(env)} {text}" for env, text in by_env.items())


def _cells(words: str, row: str, at: str, speeds: pd.DataFrame) -> list[Printed | str]:
    cells = ((at, "error"), (at + _HIDDEN, "error"), (at, "gain"))
    measured = [recorded("sampled").values(where, words, measure) for where, measure in cells]
    told = ["–" if values is None else Contrast.over(values).text(".3f") for values in measured]
    ahead = Contrast.of(speeds, {row: 1, BASELINE: -1})
    return [*told, "0" if row == BASELINE else ahead.text() if ahead.units >= FEWEST else NOT_RUN]


def _games(at: str) -> str:
    """Return in how many games the error is defined; it is so in the same games for every estimator."""
    values = recorded("sampled").values(at, next(iter(plan()["sampled"]["estimators"])))
    return str(0 if values is None else len(values))


def _correlation(measure: str, at: str, speeds: pd.DataFrame) -> Prediction | None:
    """Return the correlation over the settings that have all first blocks; None for fewer than two."""
    estimators = plan()["sampled"]["estimators"]
    measured = {row: recorded("sampled").values(at, words, measure) for words, row in estimators.items()}
    rows = in_all(speeds, FIRST_SIX)
    both = {row: x for row, x in measured.items() if x is not None and row in rows}
    if len(both) < 2:
        return None
    table = rows[list(both)].to_numpy().T
    return Prediction(measure, "sampled", False, np.array([x.mean() for x in both.values()]), list(FIRST_SIX), table)


def _told(result: Prediction | None) -> str:
    if result is None:
        return "too few runs"
    return f"{result.text} over {len(result.fidelity)} settings (p {Printed(Estimate(result.p), '.2g').text})"
