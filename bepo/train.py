"""Train and evaluate one agent: ``python -m bepo.train credit=gated_bepo env=sokoban tier=laptop seed=0``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from bepo import Command
from bepo.core.errors import UserError, say
from bepo.core.places import CONF
from bepo.runs.command import CLASSES, is_search, run_command, varying_overrides, work_of_cell
from bepo.runs.compose import register_configs, to_config
from bepo.runs.config import Config, identity_of
from bepo.runs.ending import next_command
from bepo.runs.objectives import VALIDATION_SUCCESS, checked_objectives, checked_seeds, values_of
from bepo.runs.train import train
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder, run_id


def objectives(
    config: Config, composed: DictConfig, overrides: Sequence[str], varying: Sequence[str] = ()
) -> float | list[float]:
    """Train, and return what a Hydra sweeper optimises: success on validation tasks, never on test tasks.

    An Optuna study names its objectives and its training seeds; each objective is averaged over these seeds.
    Settings of ``composed``, from which ``config`` was made, that name ``${seed}`` follow them. ``varying`` are the
    overrides by which a cell of a multirun differs from the others.
    """
    if config.is_evaluation:
        raise UserError("updates=0: must be at least 1 for training; python -m bepo.evaluate evaluates a policy")
    names = checked_objectives(config.study.get("objectives", [VALIDATION_SUCCESS]))
    seeds = checked_seeds(config.study["seeds"]) if "seeds" in config.study else []
    runs = [(_with_seed(composed, seed), [*overrides, f"seed={seed}"]) for seed in seeds]
    trained = []
    for its_config, its_overrides in runs or [(config, overrides)]:
        train(its_config, its_overrides, varying=varying, hides_test=is_search())
        trained.append(read_run(RunFolder(Path(its_config.results), run_id(identity_of(its_config))).path))
    values = values_of(names, trained)
    return values if len(values) > 1 else values[0]


def _with_seed(composed: DictConfig, seed: int) -> Config:
    changed = composed.copy()
    changed.seed = seed
    return to_config(changed)


register_configs()
sys.modules[__name__].__class__ = Command


@hydra.main(config_path=str(CONF), config_name="train", execution_whitelist=CLASSES)
def main(cfg: DictConfig) -> float | list[float]:
    values = work_of_cell(lambda overrides: objectives(to_config(cfg), cfg, overrides, varying_overrides()))
    if HydraConfig.get().mode == RunMode.RUN:
        say(f"next: {next_command('view', to_config(cfg))}")
    return values


if __name__ == "__main__":
    run_command(main)
