"""Runs and studies: which records an artefact is made of, chosen by what they say about themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from bepo import record

TIERS = ("smoke", "laptop", "paper")
# What cannot change a result, or names the run's place and not its setting.
_FREE = ("results", "tracking", "progress", "checkpoint_every", "save_rollouts", "study", "seed", "backend")
# What belongs to a method: PPO takes 128 tasks once where the others take 16 tasks 8 times.
_METHODS_OWN = ("credit.", "rollout.grouped", "training.ratio", "training.critic.")


class ForeignRecord(record.CorruptRecord):
    """A record that lacks what an analysis needs."""


@dataclass(frozen=True)
class Passes:
    """The evaluation passes of a run's final policy: ``values`` is (evaluation seeds, tasks), in per cent."""

    seeds: tuple[int, ...]
    tasks: tuple[str, ...]
    kinds: np.ndarray
    values: np.ndarray

    def of_kind(self, kind: str | None) -> Passes:
        """The tasks of one kind; all of them for None."""
        if kind is None:
            return self
        keep = self.kinds == kind
        tasks = tuple(t for t, k in zip(self.tasks, keep) if k)
        return replace(self, tasks=tasks, kinds=self.kinds[keep], values=self.values[:, keep])


class Run:
    """A complete record: its config under dotted names, its rows as frames."""

    def __init__(self, source: record.Record) -> None:
        self.record, self.id, self.path = source, source.id, source.path
        self.config, self.facts = source.config, source.facts
        try:
            self.seed = int(self.config["seed"])
            self.method = str(self.config["credit"]["name"])
            self.updates = int(self.facts["result"]["updates"])
            self.panel = str(self.facts["panels"]["test"]["digest"])
            self.tasks = int(self.facts["panels"]["test"]["tasks"])
            self.scale = str(self.facts["scale"])
            self.started = str(self.facts["sessions"][-1]["started"])
            self.versions: dict[str, int] = dict(self.facts.get("method_versions", {}))
            self.environment: dict[str, object] = dict(self.facts.get("environment", {}))
            self.commits = [_commit(session) for session in self.facts["sessions"]]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ForeignRecord(f"{self.path}: not a record of this bepo, {why}") from None
        self._passes: dict[str, Passes] = {}

    @cached_property
    def settings(self) -> dict[str, object]:
        """Everything in the config that can change the result, but seed and backend, under dotted names."""
        return {"model": "small"} | flat({k: v for k, v in self.config.items() if k not in _FREE})

    def __getitem__(self, name: str) -> object:
        """A setting by its dotted name; a leading ``credit.`` may be left out. None where there is no such setting."""
        if name in ("seed", "backend.name"):
            return self.seed if name == "seed" else self.config.get("backend", {}).get("name")
        return self.settings.get(name, self.settings.get(f"credit.{name}"))

    @property
    def env(self) -> str | None:
        return self["env.name"]

    @property
    def model(self) -> str:
        return self.settings["model"]

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """A row an evaluation episode; ``final`` says whether it is of the run's last policy."""
        frame = pd.DataFrame(self.record.episodes())
        return frame.assign(final=frame["update"] == self.updates)

    @cached_property
    def final(self) -> pd.DataFrame:
        """The episodes of the last policy on the test panel."""
        return self.episodes[self.episodes["final"] & (self.episodes["split"] == "test")]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """A row an update, numbers only; empty if the rows do not say of which."""
        frame = pd.DataFrame(self.record.metrics())
        words = frame.select_dtypes(exclude=["number", "bool"]).columns
        frame[words] = frame[words].apply(pd.to_numeric, errors="coerce")
        return frame if "update" in frame else pd.DataFrame()

    def passes(self, column: str = "success") -> Passes:
        """The final policy on the test panel. Raises ``ForeignRecord`` if the passes are not over the same tasks."""
        if column not in self._passes:
            self._passes[column] = self._read_passes(column)
        return self._passes[column]

    def _read_passes(self, column: str) -> Passes:
        try:
            rows = self.final
            seeds = tuple(int(s) for s in rows["evaluation_seed"].unique())
            tasks = rows["task"].to_numpy().reshape(max(len(seeds), 1), -1)
            kinds = rows["kind"].to_numpy() if "kind" in rows else np.full(len(rows), "")
            values = 100 * rows[column].to_numpy(float).reshape(tasks.shape)
        except (KeyError, ValueError) as error:
            raise ForeignRecord(f"{self.path}: its episodes are not evaluation passes ({error})") from None
        if not seeds or (tasks != tasks[0]).any():
            raise ForeignRecord(f"{self.path}: its final test passes are not over one list of tasks")
        return Passes(seeds, tuple(tasks[0]), kinds[: tasks.shape[1]], values)


def _commit(session: dict) -> tuple[str, bool]:
    """Of a session of work on a run, and whether the tree was dirty."""
    return (session.get("commit") or "unknown")[:10], bool(session.get("dirty"))


@dataclass(frozen=True)
class Key:
    """Which row of an artefact a run belongs to.

    ``row`` names it, or is None for a run that is none of the artefact's. ``varies`` are the settings outside
    ``credit`` in which rows differ on purpose (dotted names, or their beginnings).
    """

    row: Callable[[Run], str | None]
    varies: tuple[str, ...] = ()

    def __call__(self, run: Run) -> str | None:
        return self.row(run)


def settings(*names: str) -> Key:
    """Rows are values of credit fields (or dotted names), written as in the reported tables: ``n_min=2 b_min=2``."""
    return Key(lambda run: " ".join(f"{n.removeprefix('credit.')}={run[n]}" for n in names), names)


METHOD = Key(lambda run: run.method)


@dataclass
class Study:
    """The complete runs of one study at one tier.

    ``skipped`` names what was left out and why; ``refused`` says why the runs of an (environment, model, row) must not
    be averaged.
    """

    name: str
    scale: str
    records: list[Run] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: dict[tuple[str | None, str, str], str] = field(default_factory=dict)
    key: Key = METHOD
    results: Path | None = None
    """The folder it was read from; Optuna's database lies there."""

    def where(self, **chosen: object) -> Study:
        """The runs with these settings; ``__`` stands for a dot: ``where(env__name="webshop", model="small")``."""
        wanted = {name.replace("__", "."): value for name, value in chosen.items()}
        return self.only(lambda run: all(run[name] == value for name, value in wanted.items()))

    def only(self, wanted: Callable[[Run], bool]) -> Study:
        return replace(self, records=[r for r in self.records if wanted(r)])

    @cached_property
    def rows(self) -> dict[str, list[Run]]:
        """The runs of each row, by training seed."""
        found = defaultdict(list)
        for run in sorted(self.records, key=lambda r: (r.seed, r.id)):
            found[self.key(run)].append(run)
        return dict(found)

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """Evaluation episodes of all runs, with run, row, method, env, model and seed."""
        return self._joined("episodes")

    @cached_property
    def final(self) -> pd.DataFrame:
        """The episodes of the last policy on the test panel."""
        return self.episodes[self.episodes["final"] & (self.episodes["split"] == "test")]

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Training metrics of all runs, one row an update, with the same columns."""
        return self._joined("metrics")

    def _joined(self, stream: str) -> pd.DataFrame:
        frames = [
            getattr(r, stream).assign(run=r.id, row=self.key(r), method=r.method, env=r.env, model=r.model, seed=r.seed)
            for r in self.records
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def records(studies: Iterable[Study]) -> list[Run]:
    return [run for study in studies for run in study.records]


def select(study: Study, runs: Iterable[Run], allow_mixed: bool = False) -> Study:
    """Fill ``study`` with those of ``runs`` that may stand together; the others are named.

    1. Within an environment and model, all runs share every setting but their method's own and what the rows vary; the
       newest run decides.
    2. A row is one setting; its newest run decides.
    3. A row of several method versions, test panels or backends is refused, unless ``allow_mixed``.
    """
    newest_first = sorted(runs, key=lambda r: (r.started, r.id), reverse=True)
    chosen: dict[tuple, dict] = {}
    rows: dict[tuple, list[Run]] = defaultdict(list)
    for run in newest_first:
        row = study.key(run)
        if row is None:
            continue
        place = (run.env, run.model)
        shared = _shared(run, study.key.varies)
        other = _differences(chosen.setdefault(place, shared), shared)
        if not other:
            other = _differences(chosen.setdefault((*place, row), run.settings), run.settings)
        if other:
            study.skipped.append(f"{run.path}: set otherwise than newer runs of its study ({', '.join(sorted(other))})")
        else:
            rows[*place, row].append(run)
    for place, members in rows.items():
        reason = mixture(members)
        if reason and not allow_mixed:
            study.refused[place] = reason
        else:
            study.records += members
    study.records.sort(key=lambda r: r.id)
    return study


def mixture(runs: Iterable[Run]) -> str:
    """Why these runs must not be averaged, naming them; empty if they may."""
    aspects = {
        "method versions": lambda r: ", ".join(f"{k} {v}" for k, v in sorted(r.versions.items())) or "not recorded",
        "test panels": lambda r: r.panel,
        "backends": lambda r: str(r["backend.name"]),
    }
    reasons = []
    for aspect, of in aspects.items():
        found = defaultdict(list)
        for run in sorted(runs, key=lambda r: r.id):
            found[of(run)].append(run.id)
        if len(found) > 1:
            reasons.append(f"{aspect} " + "; ".join(f"{value}: {' '.join(ids)}" for value, ids in found.items()))
    return "mixed " + " and ".join(reasons) if reasons else ""


def _shared(run: Run, varies: tuple[str, ...]) -> dict[str, object]:
    """The settings that all rows have in common."""
    return {k: v for k, v in run.settings.items() if not k.startswith((*_METHODS_OWN, *varies))}


def _differences(a: dict, b: dict) -> set[str]:
    return {k for k in a.keys() | b.keys() if a.get(k) != b.get(k)}


def flat(tree: dict, prefix: str = "") -> dict[str, object]:
    """Nested settings under dotted names."""
    out: dict[str, object] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        out |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return out
