"""An Optuna study as it is stored: its search space, the settings it must not mix, and how far it is."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path

import optuna
from filelock import FileLock
from hydra.utils import instantiate
from hydra_plugins.hydra_optuna_sweeper._impl import create_params_from_overrides
from omegaconf import OmegaConf
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState
from sqlalchemy.exc import SQLAlchemyError

from bepo import objective
from bepo.config import identity_of
from bepo.errors import UserError
from bepo.sweep import plan
from bepo.sweep.estimate import Estimate, Throughput


def space_of(study: plan.Study) -> tuple[dict, list[str]]:
    """The search space, and the overrides that every trial has; a fixed value takes a setting out of the space."""
    space, fixed, more = create_params_from_overrides([*study.swept, *study.overrides])
    return {k: v for k, v in space.items() if k not in fixed}, [*(f"{k}={v}" for k, v in fixed.items()), *more]


def load(study: plan.Study) -> optuna.Study:
    """The stored study, made if it is new. Raises ``UserError`` if it was made with other settings."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sweeper, settings = study.config.hydra.sweeper, OmegaConf.to_object(study.config.study)
    known = ("hydra_plugins.hydra_optuna_sweeper.*", "optuna.samplers.*", "optuna.pruners.*")
    pruner = optuna.pruners.NopPruner()
    if "pruner" in settings:
        pruner = instantiate(settings["pruner"], _execution_whitelist_=known)
    sampler = instantiate(sweeper.sampler, _execution_whitelist_=known)
    directions = _directions(study)
    if obstacle := _fixed(study).obstacle:
        raise obstacle
    with FileLock(Path(study.config.results) / "studies.db.lock"):
        found = optuna.create_study(
            study_name=sweeper.study_name,
            storage=sweeper.storage,
            sampler=sampler,
            pruner=pruner,
            directions=directions,
            load_if_exists=True,
        )
        found.set_user_attr("settings", _checked(study, found))
        found.set_user_attr("objectives", settings["objectives"])
    return found


def stored(study: plan.Study) -> optuna.Study | None:
    """The study, if it was begun; nothing is made. Raises ``UserError`` if it was made with other settings."""
    sweeper = study.config.hydra.sweeper
    _directions(study)
    file = sweeper.storage.removeprefix("sqlite:///")
    if file != sweeper.storage and not Path(file).exists():
        return None
    try:
        found = optuna.load_study(study_name=sweeper.study_name, storage=sweeper.storage)
    except KeyError:
        return None
    except (SQLAlchemyError, StorageInternalError) as error:
        raise UserError(f"{sweeper.storage}: cannot be read ({str(error).splitlines()[0]})") from error
    _checked(study, found)
    return found


def wanted(study: plan.Study, found: optuna.Study | None) -> int:
    """Trials that the study is to have, with those that failed: each start puts new ones in their place."""
    failed = found.get_trials(deepcopy=False, states=[TrialState.FAIL]) if found else []
    return study.config.hydra.sweeper.n_trials + len(failed)


def standing(study: plan.Study, found: optuna.Study | None) -> str:
    """How far the study is, and its best trials: those that no other beats in every objective."""
    states = [t.state for t in found.get_trials(deepcopy=False)] if found else []
    counts = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "partial": TrialState.RUNNING}
    said = [f"{n} {word}" for word, state in counts.items() if (n := states.count(state))]
    failed = states.count(TrialState.FAIL)
    sweeper, settings = study.config.hydra.sweeper, study.config.study
    said += [f"{failed} failed"] if failed else []
    text = f"{sweeper.study_name}: {len(states) - failed} of {sweeper.n_trials} trials of {len(settings.seeds)} seeds"
    text += f" ({', '.join(said)})" if said else ""
    alike = defaultdict(list)
    for best in found.best_trials if TrialState.COMPLETE in states else []:
        alike[tuple(best.values)].append(best)
    for values, trials in sorted(alike.items(), reverse=True):
        values = ", ".join(f"{n} {v:.3f}" for n, v in zip(settings.objectives, values))
        more = f" (and {len(trials) - 1} more)" if len(trials) > 1 else ""
        text += f"\n  best: {values}, trial {trials[0].number}{more}: {words(trials[0].params)}"
    return text


def left(study: plan.Study, found: optuna.Study | None, throughput: Throughput) -> list[Estimate]:
    """What the runs of the trials to come will take, each estimated by the settings that all trials share."""
    over = [t for t in found.get_trials(deepcopy=False) if t.state.is_finished()] if found else []
    n_runs = max(0, wanted(study, found) - len(over)) * len(study.config.study.seeds)
    return [throughput.of(_fixed(study))] * n_runs if n_runs else []


def _directions(study: plan.Study) -> list[str]:
    """One for each objective. Raises ``UserError`` where that is not so, or an objective is unknown."""
    wanted, names = study.config.hydra.sweeper.direction, list(study.config.study.objectives)
    directions = [getattr(d, "name", d) for d in (wanted if OmegaConf.is_list(wanted) else [wanted])]
    if len(directions) != len(names):
        raise UserError(f"{study.name}: {len(names)} objectives, {len(directions)} directions")
    objective.values(names, [])
    return directions


def _fixed(study: plan.Study) -> plan.Run:
    """A run as all trials would be, were nothing searched for."""
    (run,) = plan.runs_of([plan.Cell(study.name, [*space_of(study)[1], "seed=0"], [])])
    return run


def _checked(study: plan.Study, found: optuna.Study) -> str:
    """A digest of everything that must not change between two trials."""
    run, settings = _fixed(study), OmegaConf.to_object(study.config.study)
    parts = [identity_of(run.config, run.device), settings["objectives"], settings["seeds"]]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]
    if found.user_attrs.get("settings", digest) != digest:
        raise UserError(
            f"{study.config.hydra.sweeper.storage}: study {found.study_name!r} was made with other settings; "
            "name another with hydra.sweeper.study_name=..."
        )
    return digest


def words(params: dict) -> str:
    return " ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in params.items())
