"""Train and evaluate one agent: ``python -m bepo.train credit=gated_bepo env=sokoban tier=laptop seed=0``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from bepo.core.errors import UserError
from bepo.runs.compose import register_configs
from bepo.runs.config import Config, identity_of
from bepo.runs.objectives import values_of
from bepo.runs.run import run
from bepo.store.runs import RunFolder, read_run, run_id


def objectives(config: Config, overrides: Sequence[str]) -> float | list[float]:
    """What a sweeper of Hydra is told: test success, or an Optuna study's objectives over its training seeds."""
    if "objectives" not in config.study:
        return run(config, overrides)
    found = []
    for seed in config.study["seeds"]:
        one = replace(config, seed=seed)
        run(one, [*overrides, f"seed={seed}"])
        identifier = run_id(identity_of(one, one.backend.resolve()))
        found.append(read_run(RunFolder(Path(one.results), identifier).path))
    values = values_of(config.study["objectives"], found)
    return values if len(values) > 1 else values[0]


register_configs()


@hydra.main(config_path="../conf", config_name="train")
def main(cfg: DictConfig) -> float | list[float]:
    overrides = HydraConfig.get().overrides.task
    try:
        return objectives(cast(Config, OmegaConf.to_object(cfg)), overrides)
    except UserError as error:
        if HydraConfig.get().mode == RunMode.RUN:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        print(f"error: {' '.join(overrides)}: {error}", file=sys.stderr)
        # Hydra runs the other cells of a grid, then shows this one again, and exits with status 1.
        raise CompactHydraException(str(error)) from None
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the checkpoint", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
