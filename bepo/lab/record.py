"""Measurements that tables and figures of the paper show: cells of settings and estimators, kept in small files.

``paper/lab.yaml`` names the cells. A cell whose digest is in the file is not measured again. Sizes: B worlds of a cell.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from bepo.core.errors import UserError, unknown_choice
from bepo.core.places import PAPER
from bepo.core.settings import identity
from bepo.credit import Estimator
from bepo.envs import Environment
from bepo.lab.bias import bias, every_group
from bepo.lab.controls import CONTROLS
from bepo.lab.fidelity import fidelity
from bepo.lab.learn import Weights, learn, warm_start
from bepo.lab.played import GameSettings
from bepo.lab.policies import noisy_expert, softmax
from bepo.lab.probe import Probe, of_estimator
from bepo.lab.sampled import Sampled, measure, sample
from bepo.lab.words import (
    DEFAULT_ENV,
    LEARNING_WORLDS,
    LabSettings,
    applicable,
    credits_of,
    make_worlds,
    probe_of,
    read_credit,
    read_environment,
    read_estimate,
    read_sampling,
    read_settings,
    split_words,
)
from bepo.lab.worlds import Worlds
from bepo.runs.compose import register_configs
from bepo.runs.config import METHOD_VERSION
from bepo.store.files import digest, read_bytes, write_output
from bepo.store.locks import locked
from bepo.sweep.studies import studies_of_paper

LAB_VERSION = 1
"""Version of the lab's own code. Raise it when the same settings give other numbers."""
TEXTS_VERSION = 2
"""Version of the texts of states in enumerated worlds, for estimators that read them. 2: states 0 to 9 have a word."""
PLAN = PAPER / "lab.yaml"
RECORDED = PAPER / "lab"
RECORDED_MEASURES: Mapping[str, Sequence[str]] = {
    "fidelity": ("error", "sign_error", "rank", "gradient_efficiency", "gain"),
    "bias": ("scale", "distance"),
    "learning": ("training", "final", "curve"),
    "sampled": ("error", "gain"),
    "gain": ("gain", "error"),
}
"""What is kept of each kind of cell."""
KINDS = tuple(RECORDED_MEASURES)
_KEYS = ["digest", "at", "estimator", "measure"]


@dataclass(frozen=True)
class LabCell:
    """One estimator at one setting of the lab, both in the words of the command line."""

    kind: str  # one of ``KINDS``
    at: str
    estimator: str

    @property
    def digest(self) -> str:
        """What makes the numbers: settings of lab and estimator and the method versions, 16 hex digits."""
        credit = None if self.estimator in CONTROLS else _credit(self.estimator, self._env)
        versions = {"lab": LAB_VERSION, "run": METHOD_VERSION, "credit": credit and credit.method_version}
        if credit and self.kind != "sampled" and "state texts" in credit.traits["needs"]:
            versions["texts"] = TEXTS_VERSION
        estimator = self.estimator if credit is None else identity(credit)
        return digest(json.dumps([self.kind, self._lab, estimator, versions], sort_keys=True), 16)

    @property
    def _lab(self) -> dict[str, Any]:
        """The settings of the lab that the numbers depend on."""
        if self.kind == "sampled":
            env, sampling = _read_sampled(self.at)
            return {"env": identity(env), "sampling": identity(sampling)}
        scene, dials, how = _read(self.at)
        learning = identity(how) if self.kind == "learning" else {"group_size": how.group_size, "seed": how.seed}
        return identity(scene) | identity(dials) | learning

    @property
    def _env(self) -> str:
        """The environment that presets follow."""
        if self.kind == "gain":
            return str(split_words(self.at.split())[1].get("like", DEFAULT_ENV))
        return _read_sampled(self.at)[0].name if self.kind == "sampled" else DEFAULT_ENV

    def measure(self) -> dict[str, np.ndarray]:
        """Return each recorded measure over worlds or games, (B,); of learning, over seeds, and the curve by update."""
        every = self._measured()
        return {name: every[name] for name in RECORDED_MEASURES[self.kind]}

    def _measured(self) -> dict[str, np.ndarray]:
        if self.kind == "learning":
            return self._learned()
        if self.kind == "sampled":
            return measure(_credit(self.estimator, self._env).credit_of, _sampled(self.at))
        if self.kind == "bias":
            every, probability = _every_group(self.at)
            scale, distance = bias(read_estimate(self.estimator, alone=True), every, probability)
            return {"scale": np.array([scale]), "distance": np.array([distance])}
        if self.kind == "gain":  # presets follow the environment
            estimate = of_estimator(_credit(self.estimator, self._env))
        else:
            estimate = read_estimate(self.estimator, alone=False)
        probed = _probe(self.at)
        return fidelity(np.asarray(estimate(probed), float), probed)

    def _learned(self) -> dict[str, np.ndarray]:
        _, _, how = _read(self.at)
        worlds, start = _start(self.at)
        curve = learn(worlds, start, read_estimate(self.estimator, alone=False), how)
        return {"training": curve.training.mean(0), "final": curve.final, "curve": curve.training.mean(1)}


def cells(kind: str) -> list[LabCell]:
    """Return the cells of ``paper/lab.yaml``, each once; those of ``fidelity`` are in its panels.

    Learning has those estimators that it names, then every other credit setting of the paper's studies.
    """
    plan = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
    if kind == "learning" and plan[kind]["studies"]:
        register_configs()
        named = [_credit(words) for words in plan[kind]["estimators"] if words not in CONTROLS]
        of_studies, _ = learnable(studies_of_paper())
        plan[kind]["estimators"] += [words for words, credit in of_studies.items() if credit not in named]
    panels: Iterable[Mapping[str, Any]] = plan["panels"].values() if kind == "fidelity" else [plan[kind]]
    every = (LabCell(kind, at, e) for panel in panels for at in panel["at"] for e in panel["estimators"])
    return list(dict.fromkeys(every))


def learnable(studies: Iterable[str]) -> tuple[dict[str, Estimator], Sequence[str]]:
    """Return the credit settings of studies that the lab can apply, by their words, and the words of the others."""
    usable, others = applicable(credits_of(studies))
    _known.update({(words, DEFAULT_ENV): credit for words, credit in usable.items()})
    return usable, others


Report = Callable[[LabCell, int, int], object]
"""Is called before a cell is measured, with its number among those that are missing, and their number."""


def record(folder: Path, kinds: Iterable[str], report: Report) -> Iterator[Path]:
    """Measure the cells of ``paper/lab.yaml`` that the files of ``folder`` lack, and yield each file.

    Rows of other cells are removed.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise unknown_choice("file", kind, KINDS)
        path, wanted = folder / f"{kind}.csv", cells(kind)
        register_configs()
        measure_missing(path, wanted, report)
        with _alone(path):
            table, digests = read(path), [cell.digest for cell in wanted]
            kept = table.loc[table["digest"].isin(digests)]
            if len(kept) < len(table):
                write_output(path, kept.to_csv(index=False))
        yield path


def measure_missing(path: Path, wanted: Sequence[LabCell], report: Report) -> int:
    """Measure the cells that a file lacks, write each at once, and return how many. Other rows stay, at the end."""
    by_digest = {cell.digest: cell for cell in wanted}
    place = {digest: i for i, digest in enumerate(by_digest)}
    known = read(path).groupby("digest")["measure"].agg(set)
    missing = [
        cell
        for digest, cell in by_digest.items()
        if {*RECORDED_MEASURES[cell.kind]}.difference(known.get(digest) or ())
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, cell in enumerate(missing):
        report(cell, number, len(missing))
        new = rows(cell)
        with _alone(path):
            table = pd.concat([read(path), new]) if path.exists() else new
            table = table.drop_duplicates(["digest", "measure"], keep="last")
            order = table["digest"].map(lambda digest: place.get(digest, len(place)))
            write_output(path, table.iloc[np.argsort(order, kind="stable")].to_csv(index=False))
    return len(missing)


def _alone(path: Path) -> AbstractContextManager[None]:
    """Keep other processes from writing a file meanwhile."""
    return locked(path.with_name(f".{path.name}.lock"))


def rows(cell: LabCell) -> pd.DataFrame:
    """Return the rows of a cell: one for each measure, with a column for each world."""
    made_by = {"digest": cell.digest, "at": cell.at, "estimator": cell.estimator}
    return pd.DataFrame(
        {**made_by, "measure": name} | {str(i): float(f"{x:.5g}") for i, x in enumerate(values)}
        for name, values in cell.measure().items()
    )


def read(path: Path) -> pd.DataFrame:
    """Return the rows of a file; none if it does not exist. Raises ``UserError`` for a file of another kind."""
    if not path.exists():
        return pd.DataFrame(columns=_KEYS)
    try:
        text = read_bytes(path, "recorded measurements").decode()
        table = pd.read_csv(StringIO(text), dtype={"digest": str}, float_precision="round_trip")
    except ValueError as error:
        raise UserError(f"{path}: not a file of recorded measurements ({error})") from None
    if missing := [column for column in _KEYS if column not in table]:
        raise UserError(f"{path}: not a file of recorded measurements, it has no column {missing[0]}")
    return table


_known: dict[tuple[str, str], Estimator] = {}


def _credit(words: str, env: str = DEFAULT_ENV) -> Estimator:
    """Return ``read_credit(words, env)``, which is slow, from memory if it has been read before."""
    if (words, env) not in _known:
        _known[words, env] = read_credit(words, env)
    return _known[words, env]


def _read(at: str) -> tuple[LabSettings, Any, Any]:
    names, given = split_words(at.split())
    if names:
        raise UserError(f"{PLAN}: {names[0]!r} is not a setting of the lab")
    return read_settings(given)


@lru_cache(maxsize=4)
def _read_sampled(at: str) -> tuple[Environment, GameSettings]:
    names, given = split_words(shlex.split(at))
    if len(names) != 1:
        raise UserError(f"{PLAN}: sampled: {at!r} must name one environment")
    return read_environment(names[0]), read_sampling(given)


@lru_cache(maxsize=1)
def _sampled(at: str) -> Sampled:
    return sample(*_read_sampled(at))


@lru_cache(maxsize=2)
def _probe(at: str) -> Probe:
    return probe_of(*_read(at))


@lru_cache(maxsize=1)
def _start(at: str) -> tuple[Worlds, Weights]:
    scene, dials, how = _read(at)
    worlds = make_worlds(scene, dials, LEARNING_WORLDS)
    return worlds, warm_start(worlds, scene.success, how.seed)


@lru_cache(maxsize=2)
def _every_group(at: str) -> tuple[Probe, np.ndarray]:
    scene, dials, how = _read(at)
    worlds = make_worlds(scene, dials, 1)
    return every_group(worlds, softmax(noisy_expert(worlds, seed=how.seed)), how.group_size)
