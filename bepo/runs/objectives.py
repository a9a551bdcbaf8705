"""The objectives of Optuna studies, averaged over the training seeds of a trial.

An objective is a registered function of a run, or any metric that runs log, such as ``train/return``: its last value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from numbers import Real
from statistics import fmean
from typing import Any, Literal, get_args

from omegaconf import DictConfig, ListConfig, OmegaConf

from bepo.core.errors import UserError, told, unknown_choice
from bepo.core.plugins import import_plugins
from bepo.runs.metrics import seconds_of_updates, success_rate
from bepo.store.run_files import StoredRun

Direction = Literal["maximize", "minimize"]


@dataclass(frozen=True)
class Objective:
    """An objective: its value for a run, and whether to maximise or minimise it; None: the study says so."""

    value: Callable[[StoredRun], float]
    direction: Direction | None
    metric: str | None  # of ``metrics.jsonl``: the objective while a run trains, which a pruner sees


OBJECTIVES: dict[str, Objective] = {}
VALIDATION_SUCCESS = "validation_success"
_MOST_TRIALS = 100_000


def objective(
    direction: Direction, metric: str | None = None
) -> Callable[[Callable[[StoredRun], float]], Callable[[StoredRun], float]]:
    """Register the decorated function of a complete run as an objective under its name.

    ``metric`` is the logged metric that shows the objective during training. A pruner needs it. Raises ``UserError`` if
    another module has registered an objective of this name.
    """

    def register(value: Callable[[StoredRun], float]) -> Callable[[StoredRun], float]:
        name = value.__name__
        if name in OBJECTIVES and (other := OBJECTIVES[name].value.__module__) != value.__module__:
            raise UserError(f"{value.__module__}: objective {name!r} is taken by {other}")
        OBJECTIVES[name] = Objective(value, direction, metric)
        return value

    return register


@objective("maximize", metric="eval/validation_success")
def validation_success(run: StoredRun) -> float:
    """Return the success rate of the last validation pass. Test tasks must not be used to choose settings."""
    return success_rate(run.episodes(), "validation", run.metadata["result"]["updates"])


@objective("minimize")
def training_seconds(run: StoredRun) -> float:
    """Return the seconds of all updates without evaluation: CPU seconds on a CPU, else wall-clock seconds."""
    return seconds_of_updates(run.metrics(), run.clock, evaluation=False)


def _last_value(metric: str) -> Objective:
    """Return the objective that is the last value of a logged metric."""

    def value(run: StoredRun) -> float:
        rows = run.metrics()
        values = [row[metric] for row in rows if row.get(metric) is not None]
        if not values:
            raise unknown_choice(
                "metric of study.objectives", metric, {name for row in rows for name in row} - {"update"}
            )
        return float(values[-1])

    return Objective(value, None, metric)


def values_of(names: Sequence[str], runs: Sequence[StoredRun]) -> list[float]:
    """Return each objective, averaged over the runs.

    Raises ``UserError`` for an unknown one, and for one that raises an error or has no finite number for a run.
    """
    return [fmean(_value(name, goal, run) for run in runs) for name, goal in zip(names, _chosen(names))]


def _value(name: str, chosen: Objective, run: StoredRun) -> float:
    try:
        value: Any = chosen.value(run)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # any type: the code of a plug-in
        raise UserError(f"objective {name}, run {run.id}: it raised {told(error)}") from error
    if not isinstance(value, Real) or not math.isfinite(value):
        raise UserError(f"objective {name}, run {run.id}: must be a finite number, not {value!r:.80}")
    return float(value)


def checked_objectives(names: Any) -> list[str]:
    """Return the names of objectives. Raises ``UserError`` unless they are a list of known objectives."""
    _chosen(names)
    return list(names)


def metric_for_pruner(name: str) -> str:
    """Return the logged metric by which a pruner compares trials. Raises ``UserError`` if the objective has none."""
    (chosen,) = _chosen([name])
    if chosen.metric is None:
        raise UserError(
            f"study.pruner: the objective {name} is known only at the end of a run; choices: ~study.pruner (no "
            "pruner), or a logged metric as the objective"
        )
    return chosen.metric


def checked_directions(names: Sequence[str], sweeper: DictConfig) -> list[str]:
    """Return the direction of each objective, ``maximize`` or ``minimize``.

    A logged metric has the direction of the sweeper. Raises ``UserError`` if the sweeper has another direction than an
    objective, or another number of them. Hydra's default is to minimise.
    """
    # The default direction is a member of an Enum of Hydra's sweeper; a given one is a string.
    given = list(sweeper.direction) if OmegaConf.is_list(sweeper.direction) else [sweeper.direction]
    said = [direction.name if isinstance(direction, Enum) else str(direction) for direction in given]
    chosen = _chosen(names)
    wanted = [goal.direction or word for goal, word in zip(chosen, [*said, *["maximize"] * (len(chosen) - len(said))])]
    if said != wanted or not {*said} <= {*get_args(Direction)}:
        aim = f"the objective{'s are' if len(wanted) > 1 else ' is'} {', '.join(names)}".replace("_", " ")
        raise UserError(f"hydra.sweeper.direction={_listed(said)}: {aim}; choices: {_listed(wanted)}")
    return wanted


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
    import_plugins()
    choices = [*OBJECTIVES, "a logged metric such as train/return"]
    if not isinstance(names, list | ListConfig) or not names:
        raise UserError(f"study.objectives={names}: must be a list; choices: {', '.join(choices)}")
    if tested := [name for name in names if "test" in str(name)]:
        raise UserError(f"study.objectives: {tested[0]} is of test tasks, which must not be used to choose settings")
    unknown = [name for name in names if str(name) not in OBJECTIVES and "/" not in str(name)]
    if unknown:
        raise unknown_choice("objective", unknown[0], choices)
    return [OBJECTIVES.get(name) or _last_value(name) for name in names]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"[{','.join(words)}]"
