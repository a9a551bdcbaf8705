"""An Optuna study as it is stored: the settings that it must not mix, its trials, and how far it is.

A trial that its process abandoned stays in the database as a failed one, and another trial *retries* it: the same
settings, and therefore the same runs. Abandoned trials that are retried count nowhere.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import optuna
from hydra.utils import instantiate
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from bepo.core.errors import UserError
from bepo.runs.compose import CONFIG_ERRORS, explain
from bepo.runs.config import identity_of
from bepo.runs.objectives import checked_directions
from bepo.store.files import digest, locked
from bepo.sweep.estimate import Throughput, TimeEstimate
from bepo.sweep.plan import PlannedRun, plan_cells
from bepo.sweep.space import search_space
from bepo.sweep.studies import Cell, PlannedStudy

RETRIES = "retries"
"""A trial's user attribute: the number of the abandoned trial that it retries."""
RUNS = "runs"
"""A trial's user attribute: the ids of its runs."""
REFUSED = "refused"
"""A trial's user attribute: why its settings cannot be trained."""
_CLASSES = ("hydra_plugins.hydra_optuna_sweeper.*", "optuna.samplers.*", "optuna.pruners.*")  # that a file may name


def sampler_and_pruner(planned: PlannedStudy) -> tuple[optuna.samplers.BaseSampler, optuna.pruners.BasePruner]:
    """Make the sampler and the pruner that a study names. Raises ``UserError`` for what is none, or not of Optuna."""
    sampler, pruner = planned.config.hydra.sweeper.sampler, planned.config.study.get("pruner")
    with catch_warnings():
        simplefilter("ignore", ExperimentalWarning)  # a sampler that groups conditional settings
        try:
            return (
                instantiate(sampler, _execution_whitelist_=_CLASSES),
                instantiate(pruner, _execution_whitelist_=_CLASSES) if pruner else optuna.pruners.NopPruner(),
            )
        except (*CONFIG_ERRORS, TypeError, ValueError) as error:  # the latter of Optuna, for arguments
            raise UserError(f"study {planned.name}: {explain(error)}; choices: {', '.join(_CLASSES)}") from None


def open_study(planned: PlannedStudy) -> optuna.Study:
    """Open the stored study, and make it if it is new.

    Raises ``UserError`` if it was made with other settings, or if this machine cannot run its trials.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sweeper = planned.config.hydra.sweeper
    sampler, pruner = sampler_and_pruner(planned)
    directions = _directions(planned)
    if obstacle := _unsearched_run(planned).obstacle:
        raise obstacle
    with locked(Path(planned.config.results) / "studies.db.lock"):
        study = optuna.create_study(
            study_name=sweeper.study_name,
            storage=sweeper.storage,
            sampler=sampler,
            pruner=pruner,
            directions=directions,
            load_if_exists=True,
        )
        study.set_user_attr("settings", _checked_digest(planned, study))
        study.set_user_attr("objectives", planned.objectives)
    return study


def find_study(planned: PlannedStudy) -> optuna.Study | None:
    """Return the stored study, or None if it was not begun; nothing is made.

    Raises ``UserError`` if it was made with other settings, or if the database cannot be read.
    """
    sweeper = planned.config.hydra.sweeper
    _directions(planned)
    file = Path(sweeper.storage.removeprefix("sqlite:///"))
    if sweeper.storage.startswith("sqlite:///") and not file.exists():
        results = Path(planned.config.results)
        if not file.parent.is_dir() and not file.is_relative_to(results):
            raise UserError(f"hydra.sweeper.storage={sweeper.storage}: there is no folder {file.parent}")
        return None
    try:
        study = optuna.load_study(study_name=sweeper.study_name, storage=sweeper.storage)
    except KeyError:
        return None
    except (SQLAlchemyError, StorageInternalError, ImportError) as error:
        raise UserError(f"{sweeper.storage}: cannot be read ({str(error).splitlines()[0]})") from error
    _checked_digest(planned, study)
    return study


def retried_trials(study: optuna.Study) -> set[int]:
    """Return the numbers of the abandoned trials that other trials retry."""
    trials = study.get_trials(deepcopy=False)
    return {trial.user_attrs[RETRIES] for trial in trials if RETRIES in trial.user_attrs}


def counted_trials(study: optuna.Study | None) -> list[FrozenTrial]:
    """Return the trials of a study, without those that are retried; none if the study was not begun."""
    if study is None:
        return []
    retried = retried_trials(study)
    return [trial for trial in study.get_trials(deepcopy=False) if trial.number not in retried]


def target_of(planned: PlannedStudy, study: optuna.Study | None) -> int:
    """Return how many counted trials the study is to have now: each start of a sweep replaces those that failed."""
    failed = [trial for trial in counted_trials(study) if trial.state == TrialState.FAIL]
    return planned.config.hydra.sweeper.n_trials + len(failed)


def format_status(planned: PlannedStudy, study: optuna.Study | None) -> str:
    """Return how far the study is, and its best trials: those that no other beats in every objective."""
    states = [trial.state for trial in counted_trials(study)]
    counts = {
        "complete": states.count(TrialState.COMPLETE),
        "pruned": states.count(TrialState.PRUNED),
        "partial": states.count(TrialState.RUNNING) + states.count(TrialState.WAITING),
        "failed": states.count(TrialState.FAIL),
    }
    sweeper, n_seeds = planned.config.hydra.sweeper, len(planned.seeds)
    n_begun = len(states) - counts["failed"]
    parts = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    text = f"{sweeper.study_name}: {n_begun} of {sweeper.n_trials} trials of {n_seeds} seeds"
    text += f" ({parts})" if parts else ""
    best = study.best_trials if study and counts["complete"] else []
    return "\n".join([text, *_best_lines(best, planned.objectives)])


def _best_lines(best: Sequence[FrozenTrial], objectives: Sequence[str]) -> list[str]:
    """Return a line for each set of equal values, the largest first."""
    by_values: dict[tuple[float, ...], list[FrozenTrial]] = defaultdict(list)
    for trial in best:
        by_values[tuple(trial.values)].append(trial)
    lines = []
    for values, trials in sorted(by_values.items(), reverse=True):
        others = f" (and {len(trials) - 1} more)" if len(trials) > 1 else ""
        number = f"trial {trials[0].number}{others}"
        lines.append(f"  best: {format_values(objectives, values)}, {number}: {format_params(trials[0].params)}")
    return lines


def format_values(objectives: Sequence[str], values: Sequence[float]) -> str:
    """Return the values of a trial with the names of their objectives."""
    return ", ".join(f"{name} {value:.3f}" for name, value in zip(objectives, values))


def format_params(params: dict[str, Any]) -> str:
    """Return a trial's settings in one line."""
    return " ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in params.items())


def time_estimates(planned: PlannedStudy, study: optuna.Study | None, throughput: Throughput) -> list[TimeEstimate]:
    """Return an estimate for each run of the trials to come, made from the settings that all trials share."""
    finished = [trial for trial in counted_trials(study) if trial.state.is_finished()]
    n_runs = max(0, target_of(planned, study) - len(finished)) * len(planned.seeds)
    return [throughput.estimate(_unsearched_run(planned), whole=True)] * n_runs if n_runs else []


def _directions(planned: PlannedStudy) -> list[StudyDirection]:
    """Return the direction of each objective. Raises ``UserError`` for another one, and for an unknown objective."""
    names = checked_directions(planned.objectives, planned.config.hydra.sweeper)
    return [StudyDirection[name.upper()] for name in names]


def _unsearched_run(planned: PlannedStudy) -> PlannedRun:
    """Return the run that every trial would be if nothing were searched."""
    (run,) = plan_cells([Cell(planned.name, [*search_space(planned.sweep)[1], "seed=0"], [])])
    return run


def _checked_digest(planned: PlannedStudy, study: optuna.Study) -> str:
    """Return a digest of everything that must not change between two trials. Raises ``UserError`` if it did."""
    run = _unsearched_run(planned)
    parts = [identity_of(run.config), planned.objectives, planned.seeds]
    name = digest(json.dumps(parts, sort_keys=True, default=str), 12)
    if study.user_attrs.get("settings", name) != name or study.directions != _directions(planned):
        raise UserError(
            f"{planned.config.hydra.sweeper.storage}: study {study.study_name!r} was made with other settings; "
            "name another with hydra.sweeper.study_name=..."
        )
    return name
