"""Checks of an Optuna study before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from bepo.core.errors import UserError
from bepo.runs.compose import CONFIG_ERRORS, explain, to_config
from bepo.runs.objectives import checked_directions, checked_seeds, checked_trials, metric_for_pruner
from bepo.sweep.samplers import sampler_and_pruner
from bepo.sweep.space import as_sweep, conditional_space, search_space
from bepo.sweep.studies import PlannedStudy, compose_study
from bepo.sweep.trials import unsearched_run


def check_tuning(planned: PlannedStudy) -> None:
    """Raise ``UserError`` for invalid objectives, seeds, number of trials, sampler or search space.

    Values that contradict each other are allowed: such a trial is pruned.
    """
    if named := [text for text in planned.sweep if text.lstrip("+").startswith("seed=")]:
        raise UserError(f"{named[0]}: a search takes training seeds as a list; choices: seed=3,4, seeds=N")
    checked_directions(planned.objectives, planned.config.hydra.sweeper)
    checked_seeds(planned.config.study.seeds)
    checked_trials(planned.config.hydra.sweeper)
    sampler_and_pruner(planned)
    if planned.config.study.get("pruner") and len(planned.objectives) == 1:
        metric_for_pruner(planned.objectives[0])
    unsearched_run(planned)  # the settings that all trials share must compose
    space, _ = search_space(planned.sweep)
    conditional = {name: entry.distribution for name, entry in conditional_space(planned.config).items()}
    if not space and not conditional:
        raise UserError("nothing is searched: hydra.sweeper.params has no choice, range or interval")
    defaults = planned.config.copy()
    OmegaConf.set_struct(defaults, False)
    del defaults["hydra"]
    for name, distribution in {**space, **conditional}.items():
        if OmegaConf.is_dict(OmegaConf.select(planned.config, name)):
            _check_presets(planned, name, distribution)
        else:
            _check_values(defaults, name, distribution)


def _check_presets(planned: PlannedStudy, name: str, distribution: BaseDistribution) -> None:
    """Raise ``UserError`` for a preset that does not exist. Contradictions with other settings are found later."""
    if not isinstance(distribution, CategoricalDistribution):
        raise UserError(f"{name}: presets must be searched with choice(...), not with {as_sweep(distribution)}")
    for value in _values(distribution):
        try:
            compose_study(planned.name, [f"{name}={value}"])
        except UserError as error:
            if isinstance(missing := error.__cause__, MissingConfigException):
                raise missing from None


def _check_values(defaults: DictConfig, name: str, distribution: BaseDistribution) -> None:
    """Raise ``UserError`` if no value of a setting is valid together with the defaults of all others."""
    problem, changed = None, defaults.copy()
    for value in _values(distribution):
        try:
            OmegaConf.update(changed, name, value, force_add=True)
            to_config(changed)
            return
        except CONFIG_ERRORS as error:
            problem = explain(error)
    raise UserError(f"{name}: all values of the search are invalid ({problem})")


def _values(distribution: BaseDistribution) -> Iterator[Any]:
    """Yield the choices, or both ends of a range."""
    if isinstance(distribution, CategoricalDistribution):
        yield from distribution.choices
    elif isinstance(distribution, IntDistribution | FloatDistribution):
        yield from (distribution.low, distribution.high)
