"""The objectives of Optuna studies, averaged over the training seeds of a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean
from typing import Any, Literal

from omegaconf import DictConfig, ListConfig, OmegaConf

from bepo.core.errors import UserError, choose
from bepo.runs.metrics import seconds_of_updates, success_rate
from bepo.store.run_files import StoredRun


def validation_success(run: StoredRun) -> float:
    """Return the success rate of the last validation pass. Test tasks must not be used to choose settings."""
    return success_rate(run.episodes(), "validation", run.metadata["result"]["updates"])


def training_seconds(run: StoredRun) -> float:
    """Return the seconds of all updates without evaluation: CPU seconds on a CPU, else wall-clock seconds."""
    return seconds_of_updates(run.metrics(), run.clock, evaluation=False)


@dataclass(frozen=True)
class Objective:
    """An objective: its value for a run, and whether to maximise or minimise it."""

    value: Callable[[StoredRun], float]
    direction: Literal["maximize", "minimize"]


_MOST_TRIALS = 100_000
VALIDATION_SUCCESS = "validation_success"
OBJECTIVES = {
    VALIDATION_SUCCESS: Objective(validation_success, "maximize"),
    "training_seconds": Objective(training_seconds, "minimize"),
}


def values_of(names: Sequence[str], runs: Sequence[StoredRun]) -> list[float]:
    """Return each objective, averaged over the runs. Raises ``UserError`` for an unknown one."""
    return [fmean(objective.value(run) for run in runs) for objective in _chosen(names)]


def checked_objectives(names: Any) -> list[str]:
    """Return the names of objectives. Raises ``UserError`` unless they are a list of known objectives."""
    _chosen(names)
    return list(names)


def checked_directions(names: Sequence[str], sweeper: DictConfig) -> list[str]:
    """Return the direction of each objective, ``maximize`` or ``minimize``.

    Raises ``UserError`` if the sweeper has another direction. Hydra's default is to minimise.
    """
    own: list[str] = [objective.direction for objective in _chosen(names)]
    # The default direction is a member of an Enum of Hydra's sweeper; a given one is a string.
    given = list(sweeper.direction) if OmegaConf.is_list(sweeper.direction) else [sweeper.direction]
    said = [one.name if isinstance(one, Enum) else str(one) for one in given]
    if said != own:
        aim = f"the objective{'s are' if len(own) > 1 else ' is'} {', '.join(names)}".replace("_", " ")
        raise UserError(f"hydra.sweeper.direction={_listed(said)}: {aim}; choices: {_listed(own)}")
    return own


def checked_seeds(seeds: Any) -> list[int]:
    """Return the training seeds of a study. Raises ``UserError`` unless they are distinct whole numbers."""
    listed = list(seeds) if isinstance(seeds, list | ListConfig) else []
    if (
        not listed
        or not all(type(seed) is int and 0 <= seed < 2**63 for seed in listed)
        or len({*listed}) < len(listed)
    ):
        raise UserError(
            f"study.seeds={seeds}: must be a list of distinct whole numbers from 0 to 2^63 - 1, at least one"
        )
    return listed


def checked_trials(sweeper: DictConfig) -> int:
    """Return the number of trials of a search. Raises ``UserError`` if it is out of range."""
    if not 1 <= sweeper.n_trials <= _MOST_TRIALS:
        raise UserError(f"hydra.sweeper.n_trials={sweeper.n_trials}: must be at least 1 and at most {_MOST_TRIALS}")
    return sweeper.n_trials


def _chosen(names: Any) -> list[Objective]:
    if not isinstance(names, list | ListConfig) or not names:
        raise UserError(f"study.objectives={names}: must be a list; choices: {', '.join(OBJECTIVES)}")
    unknown = [name for name in names if str(name) not in OBJECTIVES]
    if unknown:
        raise choose("objective", unknown[0], OBJECTIVES)
    return [OBJECTIVES[name] for name in names]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"[{','.join(words)}]"
