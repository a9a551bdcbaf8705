"""Checks of Hydra's own multirun (``bepo.train -m``, ``bepo.evaluate -m``) before it starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hydra.core.utils import configure_log
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from bepo.core.errors import UserError, unknown_choice
from bepo.core.settings import in_identity
from bepo.runs.command import CLASSES, note_swept
from bepo.runs.compose import CONFIG_ERRORS, explain
from bepo.runs.config import Config
from bepo.runs.objectives import VALIDATION_SUCCESS, checked_directions, checked_trials
from bepo.runs.trials_database import journal_file, name_search
from bepo.store.files import digest
from bepo.store.find import make_writable
from bepo.sweep.sweepers import check_plugins, is_optuna, target_of

_HANDLERS = ("logging.NullHandler", "logging.StreamHandler")
_MOST_JOBS = 1024


class SweepCheck(Callback):
    """A Hydra callback that checks a sweep. An invalid sweep ends the program with one line.

    Launchers copy it to the processes of the cells, which learn from it by which settings the cells differ.
    """

    def __init__(self) -> None:
        self._swept: list[str] = []

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the logging of a single run."""
        with _one_line():
            _check_logging(config.hydra)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check a sweep, and make the results folder, where a sweeper stores its trials."""
        with _one_line():
            _check_logging(config.hydra)
            check_plugins(config.hydra)
            _check_sweep(config)
            self._swept = _swept(config)
            _make(config.results)
            if is_optuna(config.hydra):
                _join_study(config)
            _start_logging(config.hydra)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Tell the process of a cell by which settings the cells differ."""
        note_swept(self._swept)


@contextmanager
def _one_line() -> Iterator[None]:
    """End the program with one line about a wrong config. Hydra turns exceptions of a callback into warnings."""
    try:
        yield
    except (*CONFIG_ERRORS, ValueError) as error:
        print(f"error: {explain(error)}", file=sys.stderr)
        sys.exit(2)


def _check_logging(hydra: DictConfig) -> None:
    """Raise ``UserError`` for logging to anything but a stream. A downloaded config must not write files elsewhere."""
    for name in ("job_logging", "hydra_logging"):
        for handler in (OmegaConf.select(hydra, f"{name}.handlers") or {}).values():
            kind = handler.get("class", handler.get("()")) if OmegaConf.is_dict(handler) else handler
            if kind not in _HANDLERS:
                raise unknown_choice(f"class of a handler in hydra.{name}", kind, _HANDLERS)


def _start_logging(hydra: DictConfig) -> None:
    """Start Hydra's own logging, which ``run_command`` holds back until its handlers are checked."""
    logging = OmegaConf.to_container(hydra.hydra_logging, resolve=True)
    if isinstance(logging, dict) and (handlers := logging.get("handlers")):
        logging["root"] = {"level": "INFO", "handlers": [*handlers]}
        configure_log(OmegaConf.create(logging), hydra.verbose, CLASSES)


def _overrides(config: DictConfig) -> list[str]:
    params = config.hydra.sweeper.params or {}
    return [*(f"{key}={value}" for key, value in params.items()), *config.hydra.overrides.task]


def _check_sweep(config: DictConfig) -> None:
    """Raise ``UserError`` for a sweep with no values or too many, and for a search with wrong directions."""
    from bepo.sweep.space import check_grid, search_space  # imports Optuna, which takes a second

    sweeper = config.hydra.sweeper
    if not is_optuna(config.hydra):
        if (size := sweeper.max_batch_size) is not None and size < 1:
            raise UserError(f"hydra.sweeper.max_batch_size={size}: must be at least 1, or null")
        check_grid(_overrides(config))
        _say_same_trainings(config)
        return
    checked_directions(_objectives(config), sweeper)
    checked_trials(sweeper)
    if not 1 <= sweeper.n_jobs <= _MOST_JOBS:
        raise UserError(f"hydra.sweeper.n_jobs={sweeper.n_jobs}: must be at least 1 and at most {_MOST_JOBS}")
    if target_of(sweeper.sampler).endswith(".BruteForceSampler"):
        raise UserError(
            "hydra.sweeper.sampler: Hydra's sweeper fails where BruteForceSampler ends the search; choices: another "
            "sampler, python -m bepo.sweep"
        )
    if not 0 <= sweeper.max_failure_rate <= 1:
        raise UserError(f"hydra.sweeper.max_failure_rate={sweeper.max_failure_rate}: must be between 0 and 1")
    space, _ = search_space(_overrides(config))
    if not space and not sweeper.custom_search_space:
        raise UserError("nothing is searched: no override has a choice, range or interval")


def _say_same_trainings(config: DictConfig) -> None:
    """Say which swept settings of the estimator have no effect, as the plan of a study does."""
    from bepo.sweep.plan import plan_runs, same_trainings
    from bepo.sweep.studies import PlannedStudy

    if not any(name.startswith("credit.") for name in _swept(config)):
        return
    cells = PlannedStudy(config.hydra.job.config_name, config, list(config.hydra.overrides.task))
    with suppress(UserError):  # Hydra names the cell that does not compose when its turn comes
        for line in same_trainings(plan_runs([cells])):
            print(f"NO EFFECT  {line}", file=sys.stderr)


def _swept(config: DictConfig) -> list[str]:
    """Return the names of the swept settings."""
    from bepo.sweep.space import parse

    return [override.get_key_element() for override in parse(_overrides(config)) if override.is_sweep_override()]


def _make(results: str) -> None:
    if not results.strip():
        raise UserError(f"results={results}: must name a folder; . is the current folder")
    make_writable(Path(results))


def _join_study(config: DictConfig) -> None:
    """Name an Optuna search, and compare it with its stored trials.

    Raises ``UserError`` if these have other settings or used the same seed, or if the storage cannot be opened.
    """
    from bepo.sweep.check import check_tuning
    from bepo.sweep.samplers import use_seed
    from bepo.sweep.storage import without_password
    from bepo.sweep.studies import PlannedStudy, study_folders
    from bepo.sweep.trials import join_stored, open_study

    planned = PlannedStudy(config.study.get("name", ""), config, list(config.hydra.overrides.task))
    sweeper = config.hydra.sweeper
    name_search(_name_of_search(config))
    if isinstance(sweeper.storage, str) and journal_file(sweeper.storage):
        raise UserError(
            f"hydra.sweeper.storage={sweeper.storage}: Hydra's sweeper knows databases only; python -m bepo.sweep uses "
            "journals"
        )
    if any(source.path in map(str, study_folders()) for source in config.hydra.runtime.config_sources):
        check_tuning(planned)
        use_seed(open_study(planned), sweeper.sampler)
    elif sweeper.storage is not None:
        use_seed(join_stored(planned, _objectives(config)), sweeper.sampler)
        print(f"study {sweeper.study_name} in {without_password(sweeper.storage)}", file=sys.stderr)


def _name_of_search(config: DictConfig) -> str:
    """Return a study's name with the searched settings, and a digest of all overrides on which runs depend.

    So the same command continues its study, and another search has another one.
    """
    from bepo.sweep.space import search_space

    overrides = _overrides(config)
    kept = [o for o in overrides if in_identity(Config(), o.lstrip("+~").partition("=")[0])]
    searched = "_".join(name.rpartition(".")[2] for name in search_space(overrides)[0])
    return f"search_{searched:.40}_{digest(repr(sorted(kept)), 6)}.{config.env.name}.{config.tier}"


def _objectives(config: DictConfig) -> list[str]:
    return config.study.get("objectives", [VALIDATION_SUCCESS])
