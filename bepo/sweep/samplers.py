"""The samplers and pruners of a search, and the seeds of samplers."""

from __future__ import annotations

from typing import Any
from warnings import catch_warnings, simplefilter

import optuna
from hydra.utils import instantiate
from omegaconf import OmegaConf
from optuna.exceptions import ExperimentalWarning

from bepo.core.errors import UserError
from bepo.core.seeds import derive_seed
from bepo.runs.compose import CONFIG_ERRORS, explain
from bepo.sweep.studies import PlannedStudy

SEEDS = "sampler_seeds"
"""User attribute of a study: the seeds that Hydra's own sweeper has used."""
_CLASSES = ("hydra_plugins.hydra_optuna_sweeper.*", "optuna.samplers.*", "optuna.pruners.*")  # allowed in a file


def sampler_and_pruner(
    planned: PlannedStudy, n_trials: int = 0
) -> tuple[optuna.samplers.BaseSampler, optuna.pruners.BasePruner]:
    """Make the sampler and the pruner of a study. A sampler with a seed proposes the trial after ``n_trials``.

    Raises ``UserError`` for a class that is not a sampler or pruner of Optuna.
    """
    sampler, pruner = seeded(planned.config.hydra.sweeper.sampler, n_trials), planned.config.study.get("pruner")
    made: list[Any] = []
    with catch_warnings():
        simplefilter("ignore", ExperimentalWarning)  # a sampler that groups conditional settings
        try:
            made.append(instantiate(sampler, _execution_whitelist_=_CLASSES))
            made.append(instantiate(pruner, _execution_whitelist_=_CLASSES) if pruner else optuna.pruners.NopPruner())
        except (*CONFIG_ERRORS, TypeError, ValueError, AttributeError) as error:  # Optuna's errors of wrong arguments
            raise UserError(f"study {planned.name}: {explain(error)}; choices: {', '.join(_CLASSES)}") from None
    for name, value, kind, product in (
        ("hydra.sweeper.sampler", sampler, optuna.samplers.BaseSampler, made[0]),
        ("study.pruner", pruner, optuna.pruners.BasePruner, made[1]),
    ):
        if not isinstance(product, kind):
            raise UserError(f"{name}={value}: must be a concrete class of {kind.__module__.rpartition('.')[0]}")
    return made[0], made[1]


def seeded(sampler: Any, n_trials: int) -> Any:
    """Return a sampler's settings with a seed that depends on the number of trials, if they have a seed.

    With a constant seed, a continued study would propose the same settings again.
    """
    if not _repeats_itself(sampler):
        return sampler
    return OmegaConf.merge(sampler, {"seed": derive_seed(sampler.seed, n_trials) % 2**32})


def _repeats_itself(sampler: Any) -> bool:
    """Return whether a sampler would propose the same settings again: it has a seed and stores no position.

    Samplers of quasi-random sequences and of grids store their position in the study.
    """
    if not OmegaConf.is_dict(sampler) or not isinstance(sampler.get("seed"), int):
        return False
    return str(sampler.get("_target_")).rpartition(".")[2] not in ("QMCSampler", "GridSampler")


def use_seed(study: optuna.Study, sampler: Any) -> None:
    """Record the seed that Hydra's sweeper uses for the next trials.

    Raises ``UserError`` if it was used before, because the sweeper would propose the same settings again.
    """
    if not _repeats_itself(sampler):
        return
    used = study.user_attrs.get(SEEDS, [])
    if sampler.seed in used and study.get_trials(deepcopy=False):
        raise UserError(
            f"hydra.sweeper.sampler.seed={sampler.seed}: study {study.study_name!r} has used this seed, and would get "
            "the same trials again; choices: another seed, null, or python -m bepo.sweep"
        )
    study.set_user_attr(SEEDS, sorted({*used, sampler.seed}))
