"""``python -m bepo.lab fidelity|learn|bias [ESTIMATOR ...] [key=value ...]``: measure estimators against the truth.

``fidelity`` compares advantages and gradients with the exact ones, ``learn`` trains log-linear policies, ``bias``
compares the exact expected update with the true gradient. ``replay RUN|FILE [ESTIMATOR ...]`` compares estimators with
each other on the stored rollouts of a run, or on a file of rows (.json, .jsonl, .npz). An ESTIMATOR is a choice of
``credit``, presets included, with its settings in quotes ("gated_bepo gae_lambda=0"), or a control (not for
``replay``). Without any, all are measured. ``grid [STUDY ...]`` learns every credit setting of studies (default: the
paper's); a setting that its table already has is not learned again. ``record [FILE]`` measures the cells of
``paper/lab.yaml`` for the paper's tables, and keeps them in a folder. ``sampled ENV [ESTIMATOR ...]`` measures on
games of ALFWorld or WebShop, whose truth is sampled by continuations. ``dials RUN ...`` says where the stored rollouts
of runs stand on the lab's dials; ``like=ENV`` sets those that published runs have. A preset that follows the
environment takes its settings for ENV or for the environment of RUN, else those for Sokoban.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t
from tqdm import tqdm

from bepo.core.errors import Parser, UserError, exit_code, path_of, unknown_choice
from bepo.core.plugins import without_plugins
from bepo.core.registry import check_type
from bepo.credit import estimators
from bepo.lab import equal
from bepo.lab.bias import bias, every_group
from bepo.lab.controls import CONTROLS
from bepo.lab.dials import DIALS, dials
from bepo.lab.fidelity import MEASURES, fidelity
from bepo.lab.learn import Learning, learn, warm_start
from bepo.lab.policies import noisy_expert, softmax
from bepo.lab.probe import Estimate
from bepo.lab.record import KINDS, LabCell, Report, learnable, measure_missing, read, record
from bepo.lab.replay import REPLAYED, recorded, replay
from bepo.lab.sampled import SAMPLED, measure, sample
from bepo.lab.words import (
    DEFAULT_ENV,
    LEARNING_WORLDS,
    LIKE,
    WORLDS,
    LabSettings,
    make_worlds,
    probe_of,
    read_credit,
    read_environment,
    read_estimates,
    read_sampling,
    read_settings,
    refuse_without_effect,
    split_words,
)
from bepo.lab.worlds import WorldSettings
from bepo.runs.compose import register_configs
from bepo.store.files import write_output
from bepo.store.find import DEFAULT
from bepo.sweep.studies import studies_of_paper

_KEYS = ("estimator", "world", "seed", "update", "run")
_SHOWN = ("error", "gain", "bias2", "variance", "sign_error", "rank", "gradient_cosine", "gradient_efficiency", "zero")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line about the fault."""
    options = _parser().parse_args(arguments)
    return exit_code(lambda: _run(options))


def _parser() -> Parser:
    parts = [f"{item.name}={item.default}" for part in (LabSettings, WorldSettings, Learning) for item in fields(part)]
    measures, replayed, sampled, dialled = (
        "\n".join(f"  {name:20} {meaning}" for name, meaning in table.items())
        for table in (MEASURES, REPLAYED, SAMPLED, DIALS)
    )
    parser = Parser(
        prog="python -m bepo.lab",
        description=__doc__,
        epilog=f"settings: {' '.join(dict.fromkeys(parts))}\nworlds: {', '.join(WORLDS)}\n"
        f"controls: {', '.join(CONTROLS)}\nmeasures of fidelity:\n{measures}\nof replay:\n{replayed}\n"
        f"of sampled:\n{sampled}\nof dials:\n{dialled}\nlike: {', '.join(LIKE)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("fidelity", "learn", "bias", "replay", "grid", "record", "sampled", "dials"))
    parser.add_argument("words", nargs="*", metavar="ESTIMATOR | STUDY | RUN | key=value")
    parser.add_argument(
        "--out",
        type=path_of,
        metavar="FILE.csv",
        help="also write a row for each world, seed or update; of grid: its table (default: RESULTS/lab/grid.csv); of "
        "record: its folder (paper/lab for the paper; default: RESULTS/lab)",
    )
    parser.add_argument("--results", type=path_of, default=DEFAULT, help="results folder (default: results)")
    return parser


def _run(options: argparse.Namespace) -> None:
    options.words = without_plugins(options.words)
    if options.what == "grid":
        _grid(options)
        return
    if options.what == "record":
        _record(options)
        return
    measured = {"replay": _replay, "sampled": _sampled, "dials": _dials}.get(options.what, _measured)(options)
    print(_summary(measured))
    if options.out is not None:
        write_output(options.out, measured.to_csv(index=False))
        print(options.out)


def _measured(options: argparse.Namespace) -> pd.DataFrame:
    names, given = split_words(options.words)
    scene, dials, how = read_settings(given)
    refuse_without_effect(options.what, given)
    estimates = read_estimates(names, alone=options.what == "bias", env=given.get("like", DEFAULT_ENV))
    if options.what == "fidelity" and scene.equal_to:
        print(_equal(scene, dials, how, estimates))
    return {"fidelity": _fidelity, "learn": _learn, "bias": _bias}[options.what](scene, dials, how, estimates)


def _grid(options: argparse.Namespace) -> None:
    names, given = split_words(options.words)
    read_settings(given)  # refuses unknown ones
    refuse_without_effect("learn", given)
    register_configs()
    chosen, left_out = learnable(names or studies_of_paper())
    at = " ".join(sorted(word for word in options.words if word not in names))
    wanted = [LabCell("learning", at, words) for words in chosen]
    path = options.out or options.results / "lab" / "grid.csv"
    with _bar_of_cells() as report:
        learned = measure_missing(path, wanted, report)
    print(_summary(_speeds(path, wanted)))
    print(f"{learned} of {len(chosen)} credit settings were learned now; the others were in the table")
    if left_out:
        print(f"left out, because the lab cannot apply them: {', '.join(left_out)}")
    print(path)


def _speeds(path: Path, wanted: Sequence[LabCell]) -> pd.DataFrame:
    """Return success in training and at the end by estimator and seed, the fastest learner first."""
    records, tables = read(path).set_index(["digest", "measure"]), []
    for cell in wanted:
        rows = records.loc[cell.digest].filter(regex=r"^\d+$")
        kept = {name: rows.loc[name].dropna().to_numpy(float) for name in ("training", "final")}
        tables.append(pd.DataFrame({"estimator": cell.estimator, **kept}))
    return pd.concat(sorted(tables, key=lambda table: -table["training"].mean()))


def _record(options: argparse.Namespace) -> None:
    with _bar_of_cells() as report:
        for path in record(options.out or options.results / "lab", options.words or KINDS, report):
            print(path)


@contextmanager
def _bar_of_cells() -> Iterator[Report]:
    with tqdm(unit="cell", leave=False, disable=None) as bar:

        def report(cell: LabCell, number: int, n: int) -> None:
            bar.total, bar.n = n, number
            bar.set_description(f"{cell.at}: {cell.estimator}")

        yield report


def _sampled(options: argparse.Namespace) -> pd.DataFrame:
    names, given = split_words(options.words)
    if not names:
        raise UserError("sampled: name an environment (alfworld, webshop)")
    how = read_sampling(given)
    register_configs()
    env = read_environment(names[0])
    chosen = {name: read_credit(name, env.name) for name in names[1:] or _usable()}
    if missing := env.missing():
        raise missing
    with tqdm(total=2 * how.games, unit="game", leave=False, disable=None) as bar:
        games = sample(env, how, bar.update)
    print(
        f"{env.name}: {how.games} games, horizon {env.horizon}, success {games.update.batch.success.mean():.2f}; "
        f"{games.update.continued} states (with the step), {how.continuations} continuations each\n"
    )
    tables = (pd.DataFrame({"estimator": name, **measure(credit.credit_of, games)}) for name, credit in chosen.items())
    return pd.concat(tables)


def _usable() -> list[str]:
    """Return the estimators that need nothing but rewards, states and actions."""
    every = estimators().items()
    return [n for n, cls in every if not (cls.needs_critic or cls.needs)]


def _replay(options: argparse.Namespace) -> pd.DataFrame:
    words, given = split_words(options.words)
    for name, value in given.items():
        if name != "truth":
            raise unknown_choice("setting of lab replay", name, ("truth",))
        check_type("truth", value, bool)
    if not words:
        raise UserError("replay: name a run or a file of rollouts")
    rollouts = recorded(words[0], options.results, given.get("truth", False))
    register_configs()
    chosen = {name: read_credit(name, rollouts.env) for name in words[1:] or estimators()}
    tables = []
    for update, batch in tqdm(rollouts.batches, unit="batch", total=rollouts.count, leave=False, disable=None):
        tables.append(replay(batch, chosen, rollouts.own).assign(update=update))
    return pd.concat(tables)


def _dials(options: argparse.Namespace) -> pd.DataFrame:
    if not options.words:
        raise UserError("dials: name runs with stored rollouts")
    rows = []
    for name in tqdm(options.words, unit="run", leave=False, disable=None):
        rollouts = recorded(name, options.results, truth=True)
        rows += [{"estimator": rollouts.env, "run": name, "update": u, **dials(batch)} for u, batch in rollouts.batches]
    return pd.DataFrame(rows)


def _fidelity(scene: LabSettings, dials: WorldSettings, how: Learning, estimates: dict[str, Estimate]) -> pd.DataFrame:
    probed, tables = probe_of(scene, dials, how), []
    for name, estimate in tqdm(estimates.items(), unit="estimator", leave=False, disable=None):
        measured = fidelity(np.asarray(estimate(probed), float), probed)
        tables.append(pd.DataFrame({"estimator": name, "world": [w.name for w in probed.worlds.worlds], **measured}))
    return pd.concat(tables)


def _equal(scene: LabSettings, dials: WorldSettings, how: Learning, estimates: dict[str, Estimate]) -> str:
    """Return for each estimator the group size at which its gradient is as good as the reference's at ``equal_to``."""
    sizes = sorted({*equal.SIZES, scene.equal_to or 0})
    every = estimates | read_estimates([equal.REFERENCE], alone=False)
    measured: dict[str, list[np.ndarray]] = {name: [] for name in every}
    for size in tqdm(sizes, unit="group size", leave=False, disable=None):
        probed = probe_of(scene, dials, replace(how, group_size=size))
        for name, estimate in every.items():
            values = fidelity(np.asarray(estimate(probed), float), probed)
            measured[name].append(values["gradient_efficiency"])
    wanted = measured[equal.REFERENCE][sizes.index(scene.equal_to or 0)]
    rows = {n: equal.needed_with_interval(sizes, np.stack(measured[n]), wanted) for n in estimates}
    lines = [f"{name:24} {equal.in_words(needed, sizes)}" for name, needed in rows.items()]
    head = f"group size for the gradient efficiency of {equal.REFERENCE} at {scene.equal_to} ({wanted.mean():.2f}):"
    return "\n".join([head, *lines, ""])


def _learn(scene: LabSettings, dials: WorldSettings, how: Learning, estimates: dict[str, Estimate]) -> pd.DataFrame:
    worlds = make_worlds(scene, dials, LEARNING_WORLDS)
    start, tables = warm_start(worlds, scene.success, how.seed), []
    with tqdm(total=len(estimates) * how.updates, unit="update", leave=False, disable=None) as bar:
        for name, estimate in estimates.items():
            bar.set_description(name)
            curve = learn(worlds, start, estimate, how, bar.update)
            columns = {"training": curve.training.mean(0), "final": curve.final, "before": curve.before}
            tables.append(pd.DataFrame({"estimator": name, "seed": range(how.seeds), **columns}))
    return pd.concat(tables)


def _bias(scene: LabSettings, dials: WorldSettings, how: Learning, estimates: dict[str, Estimate]) -> pd.DataFrame:
    worlds = make_worlds(scene, dials, 1)
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
