"""Evaluate a policy without training: ``python -m bepo.evaluate env=sokoban tier=laptop``, or ``run=<id of a run>``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from omegaconf import DictConfig

from bepo import Command
from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.runs.command import CLASSES, run_command, work_of_cell
from bepo.runs.compose import config_of, register_configs, to_config, with_fields
from bepo.runs.config import Config
from bepo.store.find import find_run

_OF_A_RUN = ("run=", "results=", "tracking.", "progress=", "evaluation.", "backend.", "hydra.")


def configured(cfg: DictConfig, overrides: Sequence[str]) -> Config:
    """Return the config of an evaluation.

    With ``run=ID`` it is the config of that run, changed by ``overrides``. Raises ``UserError`` if the run does not
    exist, or if an override changes a setting of its training.
    """
    if cfg.updates != 0:
        raise UserError(f"updates={cfg.updates}: must be 0 for an evaluation; python -m bepo.train trains")
    if cfg.run is None:
        return to_config(cfg)
    stored = find_run(cfg.run, Path(cfg.results))
    if stored.config["updates"] == 0:
        raise UserError(f"run={cfg.run}: is an evaluation and has no policy; name the run that it evaluated")
    for override in overrides:
        if not override.lstrip("+").startswith(_OF_A_RUN):
            raise UserError(
                f"{override}: cannot be changed, run={cfg.run} fixes the settings; choices: {', '.join(_OF_A_RUN)}"
            )
    same = {"updates": 0, "study": {}, "results": cfg.results, "progress": cfg.progress}
    return with_fields(config_of(stored.config | same), overrides)


register_configs()
sys.modules[__name__].__class__ = Command


@hydra.main(config_path=str(CONF), config_name="evaluate", execution_whitelist=CLASSES)
def main(cfg: DictConfig) -> float:
    from bepo.runs.evaluate import evaluate

    return work_of_cell(lambda overrides: evaluate(configured(cfg, overrides), overrides))


if __name__ == "__main__":
    run_command(main)
