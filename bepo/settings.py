"""``python -m bepo.settings [FILE]``: write the settings of the main experiments, or the settings reference.

A ``.json`` file gets the settings of the main experiments as Hydra composes them. The paper's tables read them from
``paper/settings.json``. A ``.md`` file gets every field with its default, range and meaning (``docs/settings.md``). A
test fails if one of the two files is out of date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from bepo.core.errors import Parser, exit_code, path_of
from bepo.core.places import EXPERIMENTS, PAPER
from bepo.runs.compose import register_configs
from bepo.runs.config import PAPER_TIERS, Config
from bepo.runs.reference import reference
from bepo.store.files import write_output

FILE = PAPER / "settings.json"
REFERENCE = Path(__file__).parents[1] / "docs" / "settings.md"
# The rows of the paper's Table "Environment- and backbone-specific settings", and its transfer to Qwen3.
PLACES = [(env, model) for env in ("alfworld", "webshop") for model in ("small", "large", "qwen3")]
PLACES += [("sokoban", "vl"), ("sokoban", "small")]
# What the tables show.
FIELDS = {
    "credit": "backup gamma gae_lambda iterations tolerance step_std step_weight gate gate_order n_min b_min eta_min "
    "mixing",
    "rollout": "tasks group_size temperature top_p top_k",
    "loss": "name ratio clip_eps dual_clip aggregation",
    "training": "learning_rate beta1 beta2 weight_decay epochs minibatch_size max_grad_norm entropy_coef kl_coef",
    "evaluation": "tasks seeds temperature top_p top_k",
    "backend": "name tensor_parallel_size",
    "env": "horizon",
    "policy": "max_prompt_length max_response_length",
}


def main_settings() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the configs of Gated-BEPO as ``{tier: {"env model": config}}``, with the fields that the tables show."""
    register_configs()
    with initialize_config_dir(str(EXPERIMENTS)):
        return {tier: dict(_places(tier)) for tier in PAPER_TIERS}


def _places(tier: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for env, model in PLACES:
        composed = compose(f"main_{env}", [f"tier={tier}", f"model={model}", "credit=gated_bepo"])
        config = asdict(cast(Config, OmegaConf.to_object(composed)))
        parts = {part: {k: v for k, v in config[part].items() if k in names.split()} for part, names in FIELDS.items()}
        yield f"{env} {model}", parts | {"updates": config["updates"]}


def main(arguments: list[str] | None = None) -> int:
    """Write the named file, by default ``paper/settings.json``, and print its path."""
    parser = Parser(prog="python -m bepo.settings", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("file", nargs="?", type=path_of, default=FILE, metavar="FILE", help=f"default: {FILE}")
    path = parser.parse_args(arguments).file
    if path.suffix not in (".json", ".md"):
        parser.error(f"{path}: name a .json or a .md file; the settings of a run: python -m bepo.train ... --cfg job")
    return exit_code(lambda: _write(path))


def _write(path: Path) -> None:
    text = reference() if path.suffix == ".md" else json.dumps(main_settings(), indent=1, sort_keys=True) + "\n"
    write_output(path, text)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
