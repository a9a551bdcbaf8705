"""A stored Optuna study: its fixed settings, its trials and its progress.

If a process dies, its trial is marked as failed, and another trial *retries* it with the same settings and therefore
the same runs. Retried trials are not counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from omegaconf import OmegaConf
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bepo.core.errors import UserError
from bepo.runs.config import identity_of
from bepo.runs.objectives import checked_directions
from bepo.runs.trials_database import best_trials, opened
from bepo.store.files import digest, folder_name
from bepo.store.locks import locked
from bepo.store.published import TRIALS
from bepo.sweep.estimate import Throughput, TimeEstimate
from bepo.sweep.plan import PlannedRun, plan_cells
from bepo.sweep.samplers import sampler_and_pruner
from bepo.sweep.space import as_sweep, conditional_space, search_space, values_of
from bepo.sweep.storage import check_place, checked_storage, file_of, storage_errors, without_password
from bepo.sweep.studies import Cell, PlannedStudy

RETRIES = "retries"
"""User attribute of a trial: the number of the abandoned trial that it retries."""
RUNS = "runs"
"""User attribute of a trial: the IDs of its runs."""
FIXED = "fixed"
"""User attribute of a study: the settings that all its trials share, by name."""
STOPPED = "stopped"
"""User attribute of a study: whether its sampler has proposed all settings that there are."""
REFUSED = "refused"
"""User attribute of a trial: why its settings cannot be trained."""


def open_study(planned: PlannedStudy) -> optuna.Study:
    """Open the stored study, or create it.

    Raises ``UserError`` if it has other settings, if this machine cannot run its trials, or if the database cannot be
    opened.
    """
    storage = _stored_at(planned.config.hydra.sweeper)
    sampler, pruner = sampler_and_pruner(planned)
    directions = _directions(planned)
    if obstacle := unsearched_run(planned).obstacle:
        raise obstacle
    with locked(Path(planned.config.results) / f"{TRIALS}.lock"):
        study = _create(planned, storage, directions)
        study.sampler, study.pruner = sampler, pruner
        study.stop = lambda: study.set_user_attr(STOPPED, True)  # Optuna's own fails outside of its ``optimize``
        _check_same(planned, study)
        study.set_user_attr(FIXED, fixed_settings(planned))
        study.set_user_attr("objectives", planned.objectives)
    return study


def _create(planned: PlannedStudy, storage: str, directions: Sequence[StudyDirection]) -> optuna.Study:
    """Return the stored study, or create it."""
    name = planned.config.hydra.sweeper.study_name
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with storage_errors(storage):
        made = opened(storage)
        return optuna.create_study(study_name=name, storage=made, directions=directions, load_if_exists=True)


def join_stored(planned: PlannedStudy, objectives: Sequence[str]) -> optuna.Study:
    """Open or create the stored study of a search without a file in ``experiments/``.

    Raises ``UserError`` if its trials searched other values, or if the storage cannot be opened.
    """
    sweeper = planned.config.hydra.sweeper
    directions = [StudyDirection[name.upper()] for name in checked_directions(objectives, sweeper)]
    study = _create(planned, _stored_at(sweeper), directions)
    space, fixed = search_space(planned.sweep)
    _refuse_change(planned, study, changed_search(study, space, {*space}, values_of(fixed), {}))
    study.set_user_attr("objectives", list(objectives))
    return study


def find_study(planned: PlannedStudy) -> optuna.Study | None:
    """Return the stored study, or None if it does not exist. Do not create anything.

    Raises ``UserError`` if it has other settings, or if the database cannot be read.
    """
    storage, name = _stored_at(planned.config.hydra.sweeper), planned.config.hydra.sweeper.study_name
    _directions(planned)
    file = file_of(storage)
    if file and not file.exists():
        check_place(file, storage, Path(planned.config.results))
        return None
    with storage_errors(storage):
        place = opened(storage)
        if name not in optuna.get_all_study_names(place):
            return None
        study = optuna.load_study(study_name=name, storage=place)
    _check_same(planned, study)
    return study


def _stored_at(sweeper: Any) -> str:
    """Return the storage of a study. Raises ``UserError`` for an invalid storage or study name."""
    folder_name(sweeper.study_name, "hydra.sweeper.study_name")
    return checked_storage(sweeper.storage)


def retried_trials(study: optuna.Study) -> set[int]:
    """Return the numbers of the abandoned trials that other trials retry."""
    trials = study.get_trials(deepcopy=False)
    return {trial.user_attrs[RETRIES] for trial in trials if RETRIES in trial.user_attrs}


def counted_trials(study: optuna.Study | None) -> list[FrozenTrial]:
    """Return the trials of a study without those that were retried; empty without a study."""
    if study is None:
        return []
    retried = retried_trials(study)
    return [trial for trial in study.get_trials(deepcopy=False) if trial.number not in retried]


def target_of(planned: PlannedStudy, study: optuna.Study | None) -> int:
    """Return the target number of counted trials. Each start of a sweep replaces the failed ones.

    A study that its sampler has stopped has no more trials than it has begun; only failed ones are tried again.
    """
    counted = counted_trials(study)
    failed = sum(trial.state == TrialState.FAIL for trial in counted)
    if study and STOPPED in study.user_attrs:
        return min(len(counted), planned.config.hydra.sweeper.n_trials) + failed
    return planned.config.hydra.sweeper.n_trials + failed


def format_status(planned: PlannedStudy, study: optuna.Study | None) -> str:
    """Return the progress of the study and its best trials (the Pareto front of the objectives)."""
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
    if study and STOPPED in study.user_attrs:
        text += "; the sampler has no other settings to try"
    best = best_trials(study) if study and counts["complete"] else []
    return "\n".join([text, *_best_lines(best, planned.objectives)])


def _best_lines(best: Sequence[FrozenTrial], objectives: Sequence[str]) -> list[str]:
    """Return a line for each distinct tuple of values, the largest first."""
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
    """Return a time estimate for each remaining run, from the settings that all trials share."""
    finished = [trial for trial in counted_trials(study) if trial.state.is_finished()]
    n_runs = max(0, target_of(planned, study) - len(finished)) * len(planned.seeds)
    return [throughput.estimate(unsearched_run(planned), whole=True)] * n_runs if n_runs else []


def _directions(planned: PlannedStudy) -> list[StudyDirection]:
    """Return the direction of each objective. Raises ``UserError`` for a wrong direction or an unknown objective."""
    names = checked_directions(planned.objectives, planned.config.hydra.sweeper)
    return [StudyDirection[name.upper()] for name in names]


def unsearched_run(planned: PlannedStudy) -> PlannedRun:
    """Return the run of the settings that all trials share, with the defaults of the searched settings."""
    (run,) = plan_cells([Cell(planned.name, [*search_space(planned.sweep)[1], "seed=0"], [])])
    return run


def fixed_settings(planned: PlannedStudy) -> dict[str, Any]:
    """Return the settings that must not change between two trials by name, as JSON stores them."""
    run, searched = unsearched_run(planned), {*search_space(planned.sweep)[0]}
    entries = OmegaConf.to_container(planned.config.study.get("conditional") or OmegaConf.create())
    assert isinstance(entries, dict)
    conditions = {str(name): {part: entry.get(part) for part in ("where", "unless")} for name, entry in entries.items()}
    study = {"objectives": planned.objectives, "seeds": planned.seeds, "conditional": conditions}
    parts = {**identity_of(run.config), "study": study}
    settings = json.loads(json.dumps(parts, default=str))
    return {name: value for name, value in _by_dotted_name(settings) if name not in searched}


def _by_dotted_name(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _by_dotted_name(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _check_same(planned: PlannedStudy, study: optuna.Study) -> None:
    """Raise ``UserError`` if a stored study has another search space or other settings."""
    space, fixed = search_space(planned.sweep)
    conditional = {name: entry.distribution for name, entry in conditional_space(planned.config).items()}
    given = values_of(fixed)
    searched = space | {name: entry for name, entry in conditional.items() if name not in given}
    now, before = fixed_settings(planned), study.user_attrs.get(FIXED)
    changed = changed_search(study, searched, {*space}, given, before or {})
    if not changed and before is not None:
        changed = next(
            (f"{n} was {before.get(n)} and is {now.get(n)}" for n in before | now if before.get(n) != now.get(n)), ""
        )
    elif not changed and not _is_as_old_digest_says(planned, study):
        changed = "other fixed settings"
    if not changed and study.directions != _directions(planned):
        changed = f"its directions were {[d.name.lower() for d in study.directions]}"
    _refuse_change(planned, study, changed)


def _refuse_change(planned: PlannedStudy, study: optuna.Study, changed: str) -> None:
    if changed:
        raise UserError(
            f"study {study.study_name!r} in {without_password(planned.config.hydra.sweeper.storage)} was made with "
            f"other settings: {changed}; choose another name with hydra.sweeper.study_name=..."
        )


def changed_search(
    study: optuna.Study,
    searched: Mapping[str, BaseDistribution],
    always: Collection[str],
    given: Mapping[str, Any],
    before: Mapping[str, Any],
) -> str:
    """Return the first setting that a stored study searched differently, with old and new values; empty if all agree.

    ``always`` are the searched settings that every trial has. ``given`` and ``before`` are the fixed settings now and
    when the study was created. Optuna stores a trial's settings one by one, so a trial that runs or was killed may have
    only some of them. Such trials show that a setting was not searched only if ``before`` is empty.
    """
    old: dict[str, BaseDistribution] = {}
    trials = study.get_trials(deepcopy=False)
    for trial in trials:
        old = trial.distributions | old
    for name, distribution in old.items():
        if name not in searched:
            return f"{name} was {as_sweep(distribution)} and is {given.get(name, 'not searched')}"
        if distribution != searched[name]:
            return f"{name} was {as_sweep(distribution)} and is {as_sweep(searched[name])}"
    whole = not before or any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in trials)
    not_searched = always if old and whole else before
    added = next((name for name in always if name in not_searched and name not in old), None)
    return f"{added} was {before.get(added, 'not searched')} and is {as_sweep(searched[added])}" if added else ""


def _is_as_old_digest_says(planned: PlannedStudy, study: optuna.Study) -> bool:
    """Return whether an old study, which stores only a digest of its settings, has the same settings."""
    parts = [identity_of(unsearched_run(planned).config), planned.objectives, planned.seeds]
    name = digest(json.dumps(parts, sort_keys=True, default=str), 12)
    return study.user_attrs.get("settings", name) == name
