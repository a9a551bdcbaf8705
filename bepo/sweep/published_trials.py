"""The published trials of Optuna studies: a database for each tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import optuna
from optuna.trial import TrialState
from sqlalchemy.exc import SQLAlchemyError

from bepo.core.errors import UserError
from bepo.runs.trials_database import database_url
from bepo.store.published import TRIALS, PublishedRuns
from bepo.sweep.trials import RUNS


def publish_trials(results: Path, published: PublishedRuns) -> None:
    """Copy every Optuna study of the tier. A published study of the same name is replaced if its trials differ.

    Raises ``UserError`` if a database cannot be read.
    """
    source, target = (database_url(folder) for folder in (results, published.folder))
    old = _studies(published)
    for name, study in _read(results).items():
        if not name.endswith(f".{published.tier}") or (name in old and _same(study, old[name])):
            continue
        if name in old:
            optuna.delete_study(study_name=name, storage=target)
        optuna.copy_study(from_study_name=name, from_storage=source, to_storage=target)


def check_trials(published: PublishedRuns) -> Iterator[str]:
    """Yield an error for each missing run of a complete trial. Raises ``UserError`` if the database cannot be read."""
    known = set(published.ids())
    for name, study in _studies(published).items():
        for trial in study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
            for run_id in sorted(set(trial.user_attrs.get(RUNS, ())) - known):
                yield f"{published.folder / TRIALS}: {name}, trial {trial.number}: run {run_id} is missing"


def _studies(published: PublishedRuns) -> dict[str, optuna.Study]:
    return _read(published.folder)


def _read(folder: Path) -> dict[str, optuna.Study]:
    """Return the studies of a folder's database by name; empty without a database."""
    if not (folder / TRIALS).exists():
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = database_url(folder)
    try:
        return {n: optuna.load_study(study_name=n, storage=storage) for n in optuna.get_all_study_names(storage)}
    except (SQLAlchemyError, RuntimeError) as error:
        raise UserError(f"{folder / TRIALS}: not an Optuna database ({str(error).splitlines()[0]})") from None


def _same(a: optuna.Study, b: optuna.Study) -> bool:
    trials = [[(t.state, t.values, t.user_attrs) for t in study.get_trials(deepcopy=False)] for study in (a, b)]
    return trials[0] == trials[1]
