"""``python -m bepo.lab fidelity|learn|bias [ESTIMATOR ...] [key=value ...]``: measure estimators against the truth.

``fidelity`` compares advantages and gradients with the exact ones, ``learn`` trains log-linear policies, ``bias``
compares the exact expected update with the true gradient. ``replay RUN|FILE [ESTIMATOR ...]`` compares estimators with
each other on the stored rollouts of a run, or on a file of rows (.json, .jsonl, .npz). An ESTIMATOR is a choice of
``credit``, presets included, with its settings in quotes ("gated_bepo gae_lambda=0"), or a control (not for
``replay``). Without any, all are measured. ``grid [STUDY ...]`` learns every credit setting of studies (default: the
paper's); a setting that its table already has is not learned again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
from hydra import compose, initialize_config_dir
from scipy.stats import t
from tqdm import tqdm

from bepo.core.errors import Parser, UserError, choose, exit_code, path_of
from bepo.core.places import CONF
from bepo.core.registry import assignments, check_type
from bepo.core.settings import Settings, setting
from bepo.credit import Estimator, estimators
from bepo.lab.bias import bias, every_group
from bepo.lab.controls import CONTROLS
from bepo.lab.fidelity import MEASURES, Estimate, fidelity, of_estimator, probe
from bepo.lab.grid import Grid, credits_of, with_and_without_critic
from bepo.lab.learn import Learning, learn, warm_start
from bepo.lab.policies import at_success, noisy_expert, softmax
from bepo.lab.replay import REPLAYED, recorded, replay
from bepo.lab.worlds import FAMILIES, Dials, Worlds
from bepo.runs.compose import CONFIG_ERRORS, explain, register_configs, to_config
from bepo.store.files import write_output
from bepo.store.find import DEFAULT
from bepo.sweep.studies import studies_of_paper

_LEARNING_WORLDS = 300
_KEYS = ("estimator", "world", "seed", "update")
_SHOWN = ("error", "bias2", "variance", "sign_error", "rank", "gradient_cosine", "gradient_efficiency", "zero")


@dataclass
class Scene(Settings):
    """Which worlds are measured, from which policy."""

    world: str = "sokoban"
    """The family of worlds."""
    worlds: int | None = setting(None, at_least=1, at_most=5000)
    """Number of worlds; null: 16 for fidelity, 300 for learning, 1 for the exact bias."""
    success: float = setting(0.3, above=0, below=1)
    """Success rate of the policy at the start."""
    groups: int = setting(200, at_least=1)
    """Groups of each world, for fidelity."""

    group = "lab"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line about the fault."""
    options = _parser().parse_args(arguments)
    return exit_code(lambda: _run(options))


def _parser() -> Parser:
    parts = [f"{item.name}={item.default}" for part in (Scene, Dials, Learning) for item in fields(part)]
    measures, replayed = (
        "\n".join(f"  {name:20} {meaning}" for name, meaning in table.items()) for table in (MEASURES, REPLAYED)
    )
    parser = Parser(
        prog="python -m bepo.lab",
        description=__doc__,
        epilog=f"settings: {' '.join(dict.fromkeys(parts))}\nworlds: {', '.join(FAMILIES)}\n"
        f"controls: {', '.join(CONTROLS)}\nmeasures of fidelity:\n{measures}\nof replay:\n{replayed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("fidelity", "learn", "bias", "replay", "grid"))
    parser.add_argument("words", nargs="*", metavar="ESTIMATOR | STUDY | key=value")
    parser.add_argument(
        "--out",
        type=path_of,
        metavar="FILE.csv",
        help="also write a row for each world, seed or update; of grid: its table (default: RESULTS/lab/grid.csv)",
    )
    parser.add_argument("--results", type=path_of, default=DEFAULT, help="results folder (default: results)")
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.what == "grid":
        _grid(options)
        return
    measured = _replay(options.words, options.results) if options.what == "replay" else _measured(options)
    print(_summary(measured))
    if options.out is not None:
        write_output(options.out, measured.to_csv(index=False))
        print(options.out)


def _split(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names among the words of a command line, and the settings."""
    names = [word for word in words if "=" not in word.split(" ")[0]]
    return names, assignments([word for word in words if "=" in word.split(" ")[0]])


def _measured(options: argparse.Namespace) -> pd.DataFrame:
    names, given = _split(options.words)
    scene, dials, how = _settings(given)
    estimates = _estimates(names, alone=options.what == "bias")
    return {"fidelity": _fidelity, "learn": _learn, "bias": _bias}[options.what](scene, dials, how, estimates)


def _grid(options: argparse.Namespace) -> None:
    names, given = _split(options.words)
    scene, dials, how = _settings(given)
    register_configs()
    chosen, left_out = with_and_without_critic(credits_of(names or studies_of_paper()))
    scene.worlds = scene.worlds or _LEARNING_WORLDS
    made_by = {name: value for name, value in (vars(dials) | vars(how) | vars(scene)).items() if name != "groups"}
    grid = Grid(options.out or options.results / "lab" / "grid.csv", made_by)
    if missing := grid.missing(chosen):
        worlds = _worlds(scene, dials, _LEARNING_WORLDS)
        start = warm_start(worlds, scene.success, how.seed)
        with tqdm(total=len(missing) * how.updates, unit="update", leave=False, disable=None) as bar:
            for name, credit in missing.items():
                bar.set_description(name)
                grid.add(name, credit, learn(worlds, start, of_estimator(credit), how, bar.update))
    print(_summary(grid.of(chosen)))
    print(f"{len(missing)} of {len(chosen)} credit settings were learned now; the others were in the table")
    if left_out:
        print(f"left out, because they need a critic: {', '.join(left_out)}")
    print(grid.path)


def _replay(words: list[str], results: Path) -> pd.DataFrame:
    if not words:
        raise UserError("replay: name a run or a file of rollouts")
    own, n_batches, batches = recorded(words[0], results)
    with _presets():
        chosen = {name: _credit(name) for name in words[1:] or estimators()}
    tables = []
    for update, batch in tqdm(batches, unit="batch", total=n_batches, leave=False, disable=None):
        tables.append(replay(batch, chosen, own).assign(update=update))
    return pd.concat(tables)


def _settings(given: dict[str, Any]) -> tuple[Scene, Dials, Learning]:
    """Return the settings that a command line names. Raises ``UserError`` for unknown names and wrong values."""
    kinds = {part: get_type_hints(part) for part in (Scene, Dials, Learning)}
    own = {part: {item.name for item in fields(part)} for part in kinds}
    for name, value in given.items():
        if not any(name in names for names in own.values()):
            raise choose("setting", name, sorted({known for names in own.values() for known in names}))
        check_type(f"lab.{name}", value, next(kinds[part][name] for part in kinds if name in own[part]))
    scene = Scene(**{k: v for k, v in given.items() if k in own[Scene]})
    dials = Dials(**{k: v for k, v in given.items() if k in own[Dials]})
    how = Learning(**{k: v for k, v in given.items() if k in own[Learning]})
    if scene.world not in FAMILIES:
        raise choose("world", scene.world, FAMILIES)
    return scene, dials, how


def _estimates(names: list[str], alone: bool) -> dict[str, Estimate]:
    """Return the estimates with these names; without names, every one that needs no critic.

    ``alone`` asks for estimators whose groups do not influence each other.
    """
    with _presets():
        usable = (n for n, cls in estimators().items() if not cls.needs_critic and not (alone and cls().mixes_groups))
        return {name: _estimate(name, alone) for name in names or [*usable, *CONTROLS]}


@contextmanager
def _presets() -> Iterator[None]:
    """Let ``_credit`` find presets."""
    register_configs()
    with initialize_config_dir(str(CONF)):
        yield


def _estimate(text: str, alone: bool) -> Estimate:
    """Return what a word of the command line names: a control, or an estimator or preset with its settings."""
    if text in CONTROLS:
        return CONTROLS[text]
    credit = _credit(text)
    if credit.needs_critic:
        raise UserError(f"credit={credit.name} needs a critic: the lab has none")
    if alone and credit.mixes_groups:
        raise UserError(f"credit={credit.name} mixes groups: its exact bias is not that of one group")
    return of_estimator(credit)


def _credit(text: str) -> Estimator:
    """Return an estimator or preset with its settings."""
    name, *settings = text.split() or [text]
    try:
        composed = compose("train", [f"credit={name}", *(f"credit.{word}" for word in settings)])
        return to_config(composed).credit
    except CONFIG_ERRORS as error:
        raise UserError(f"{text!r}: {explain(error)}") from None


def _worlds(scene: Scene, dials: Dials, default: int) -> Worlds:
    return Worlds(FAMILIES[scene.world](scene.worlds or default), dials)


def _fidelity(scene: Scene, dials: Dials, how: Learning, estimates: dict[str, Estimate]) -> pd.DataFrame:
    worlds = _worlds(scene, dials, 16)
    policy = at_success(worlds, noisy_expert(worlds, seed=how.seed), scene.success)
    probed = probe(worlds, policy, how.group_size, scene.groups, how.seed)
    tables = []
    for name, estimate in tqdm(estimates.items(), unit="estimator", leave=False, disable=None):
        measured = fidelity(np.asarray(estimate(probed), float), probed)
        tables.append(pd.DataFrame({"estimator": name, "world": [w.name for w in worlds.worlds], **measured}))
    return pd.concat(tables)


def _learn(scene: Scene, dials: Dials, how: Learning, estimates: dict[str, Estimate]) -> pd.DataFrame:
    worlds = _worlds(scene, dials, _LEARNING_WORLDS)
    start, tables = warm_start(worlds, scene.success, how.seed), []
    with tqdm(total=len(estimates) * how.updates, unit="update", leave=False, disable=None) as bar:
        for name, estimate in estimates.items():
            bar.set_description(name)
            curve = learn(worlds, start, estimate, how, bar.update)
            columns = {"training": curve.training.mean(0), "final": curve.final, "before": curve.before}
            tables.append(pd.DataFrame({"estimator": name, "seed": range(how.seeds), **columns}))
    return pd.concat(tables)


def _bias(scene: Scene, dials: Dials, how: Learning, estimates: dict[str, Estimate]) -> pd.DataFrame:
    worlds = _worlds(scene, dials, 1)
    every, probability = every_group(worlds, softmax(noisy_expert(worlds, seed=how.seed)), how.group_size)
    rows = [(name, *bias(estimate, every, probability)) for name, estimate in estimates.items()]
    return pd.DataFrame(rows, columns=["estimator", "scale", "distance"])


def _summary(measured: pd.DataFrame) -> str:
    """Return the mean of each number over worlds, seeds or updates, with its interval, an estimator a row."""
    rows: dict[str, dict[str, str]] = {}
    for name, same in measured.groupby("estimator", sort=False):
        columns = [c for c in same if c not in _KEYS and (c in _SHOWN or c not in MEASURES)]
        rows[str(name)] = {str(column): _with_interval(same[column].to_numpy(float)) for column in columns}
    return pd.DataFrame.from_dict(rows, orient="index").to_string()


def _with_interval(values: np.ndarray) -> str:
    """Return the mean and half of its 95 % interval by Student's t, without NaN; empty if nothing is left."""
    values = values[~np.isnan(values)]
    if not len(values):
        return ""
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.3f} ± {half:.3f}" if half else f"{values.mean():.3f}"


if __name__ == "__main__":
    sys.exit(main())
