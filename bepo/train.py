"""Train and evaluate one agent: ``python -m bepo.train credit=gated_bepo env=sokoban tier=laptop seed=0``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hydra
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from bepo.core.errors import UserError, choose
from bepo.runs.command import CLASSES, run_command, work_of_cell
from bepo.runs.compose import register_configs, to_config
from bepo.runs.config import Config, identity_of
from bepo.runs.objectives import VALIDATION_SUCCESS, checked_directions, values_of
from bepo.runs.run import run
from bepo.store.runs import RunFolder, run_id
from bepo.store.stored import read_run


def objectives(config: Config, overrides: Sequence[str]) -> float | list[float]:
    """Run, and return what a sweeper of Hydra optimises: success on validation tasks, never on test tasks.

    An Optuna study says itself what it optimises, as means over the training seeds that it names.
    """
    if config.is_evaluation:
        raise UserError("updates=0: there is nothing to train; python -m bepo.evaluate evaluates a policy as it is")
    names, seeds = config.study.get("objectives", [VALIDATION_SUCCESS]), config.study.get("seeds")
    runs = [(replace(config, seed=seed), [*overrides, f"seed={seed}"]) for seed in seeds or []]
    found = []
    for one, its_overrides in runs or [(config, overrides)]:
        run(one, its_overrides)
        found.append(read_run(RunFolder(Path(one.results), run_id(identity_of(one))).path))
    values = values_of(names, found)
    return values if len(values) > 1 else values[0]


class SweepCheck(Callback):
    """Looks at a sweep of Hydra's before it begins: what cannot be right ends the program with one line."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Make the results folder, in which a sweeper keeps its trials, unless the sweep is refused."""
        try:
            check_sweeper(config)
            Path(config.results).mkdir(parents=True, exist_ok=True)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)


def check_sweeper(config: DictConfig) -> None:
    """Raise ``UserError`` if a sweeper would optimise something else than success on validation tasks.

    A sweeper that reads no results may do as it likes, and a study may name other objectives.
    """
    sweeper = config.hydra.sweeper
    kind = sweeper._target_.split(".")[-1]
    if kind == "OptunaSweeper":
        checked_directions(config.study.get("objectives", [VALIDATION_SUCCESS]), sweeper)
    elif kind != "BasicSweeper":
        raise choose("sweeper", sweeper._target_, ("hydra/sweeper=basic", "hydra/sweeper=optuna"))


register_configs()


@hydra.main(config_path="../conf", config_name="train", execution_whitelist=CLASSES)
def main(cfg: DictConfig) -> float | list[float]:
    return work_of_cell(lambda overrides: objectives(to_config(cfg), overrides))


if __name__ == "__main__":
    run_command(main)
