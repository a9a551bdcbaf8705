"""Runs and studies: which runs an artefact is made of, chosen by what they say about themselves."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd

from analysis.data.methods import method_of
from bepo.core.batch import RolloutBatch
from bepo.runs.config import versions_today, with_neutral_defaults
from bepo.store.files import Corrupt
from bepo.store.run_files import StoredRun

# Training seeds are averaged over, backends and method versions are never mixed: select() looks at them itself.
_LOOKED_AT = ("seed", "backend", "method_versions")
# What belongs to a method: PPO takes 128 tasks once where the others take 16 tasks 8 times. A method chooses its loss
# and the level of its ratio; runs of one loss share its other settings.
_OF_A_METHOD = ("credit.", "rollout.grouped", "loss.", "training.critic.")


_SHARES = ("success", "task_score", "valid", "broken")  # columns of episodes that are shares, shown in per cent

T = TypeVar("T")
K = TypeVar("K")


class Run:
    """A complete run: its config under dotted names, its rows as frames.

    ``settings`` is everything in its identity but seed, backend and method versions. A field that was added later, and
    whose default changes nothing, is absent where it has this default. ``task_set`` is the digest of the test tasks,
    ``missing`` counts the episodes that an endpoint did not answer, by reason. ``commits`` has for each session of work
    the commit and whether the sources were changed; ``cpus`` are the models of the processors that it ran on.
    ``published`` says whether it is among the published runs of its source, be it read from there or not.
    """

    def __init__(self, stored: StoredRun, published: bool = False) -> None:
        """Raise ``Corrupt`` if the run's files lack what an analysis needs."""
        self._stored, self.published = stored, published
        self._passes: dict[str, pd.DataFrame] = {}
        self.id, self.path, self.config, self.metadata = stored.id, stored.path, stored.config, stored.metadata
        try:
            self.identity: dict[str, Any] = dict(self.metadata["identity"])
            self._named = flat(with_neutral_defaults(self.identity))
            self.settings = flat({name: part for name, part in self.identity.items() if name not in _LOOKED_AT})
            self.env, self.model = str(self.config["env"]["name"]), str(self.settings["model"])
            self.updates, self.tier = int(self.metadata["result"]["updates"]), str(self.metadata["tier"])
            self.seed, self.method = int(self.config["seed"]), method_of(self.config, self.updates)
            self.missing = {str(k): int(n) for k, n in (self.metadata["result"].get("missing") or {}).items()}
            self.task_set = str(self.metadata["task_sets"]["test"]["digest"])
            self.tasks = int(self.metadata["task_sets"]["test"]["tasks"])
            self.versions: dict[str, int] = dict(self.identity["method_versions"])
            for part in ("env", "backend", *(("credit",) if self.updates else ())):  # an evaluation has no estimator
                _ = self.identity[part]["name"]
            self.environment_facts: dict[str, object] = dict(self.metadata.get("environment", {}))
            self.started = str(self.metadata["sessions"][-1]["started"])
            commits = [(s.get("commit") or "unknown", s.get("dirty")) for s in map(dict, self.metadata["sessions"])]
            self.commits = [(commit[:10], bool(dirty)) for commit, dirty in commits]
            self.cpus = {str(session["machine"]["cpu"]) for session in self.metadata["sessions"]}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise Corrupt(f"{self.path}: not a run of this bepo, {why}") from None

    def __getitem__(self, name: str) -> Any:
        """Return a setting by its dotted name, of which a leading ``credit.`` may be left out; None if it has none."""
        known = [full for full in (name, f"credit.{name}") if full in self._named]
        return self._named[known[0]] if known else None

    def written(self, name: str) -> str | None:
        """Return a setting as one word, ``null`` where it is None; None if the run has no such setting."""
        known = [full for full in (name, f"credit.{name}") if full in self._named]
        return _as_word(self._named[known[0]]) if known else None

    @property
    def is_evaluation(self) -> bool:
        """Was nothing trained?"""
        return self.updates == 0

    @cached_property
    def changed_since(self) -> list[str]:
        """The parts of the method whose version is another today: this bepo would train the run otherwise."""
        return changed_since(self.identity)

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """One row an evaluation episode; ``final`` says whether it is of the run's last policy."""
        return pd.DataFrame(self._stored.episodes()).assign(final=lambda rows: rows["update"] == self.updates)

    @cached_property
    def final(self) -> pd.DataFrame:
        """The episodes of the last policy on the test tasks."""
        rows = self.episodes
        return pd.DataFrame(rows[rows["final"] & (rows["split"] == "test")])

    @cached_property
    def success_before(self) -> float | None:
        """The share of the test tasks that the policy solves before training; None if that was not evaluated.

        Runs on different kinds of processors can have different warm starts, and this is where it shows.
        """
        rows = self.episodes
        before = rows.loc[(rows["split"] == "test") & (rows["update"] == 0), "success"]
        return float(before.astype(float).mean()) if len(before) else None

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row an update, numbers only; empty if the rows do not say of which update.

        ``seconds/<stage>`` is what a stage costs: CPU seconds of a run on a CPU, else seconds by the clock.
        """
        rows = [{k: v if isinstance(v, int | float) else None for k, v in r.items()} for r in self._stored.metrics()]
        frame = pd.DataFrame(pd.DataFrame(rows).apply(pd.to_numeric, errors="coerce"))
        clock = self._stored.clock
        costs = {name: name.replace(clock, "seconds/", 1) for name in frame if name.startswith(clock)}
        return frame.assign(**{new: frame[old] for old, new in costs.items()}) if "update" in frame else pd.DataFrame()

    @property
    def kept_updates(self) -> list[int]:
        """The updates of which the run kept its rollout batch."""
        return sorted(self._stored.rollouts())

    def rollouts(self, update: int) -> RolloutBatch:
        """Read the rollout batch of an update that was kept."""
        return RolloutBatch.load(BytesIO(self._stored.read(self._stored.rollouts()[update])))

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over updates. Raises ``KeyError`` if it was not logged."""
        return float(np.mean(self.metrics[metric]))

    def passes(self, column: str = "success") -> pd.DataFrame:
        """Return what the final policy reached on the test tasks: (evaluation seeds, tasks by kind).

        Shares (``success``, ``task_score``, ``valid``, ``broken``) are in per cent, other columns such as ``return``
        as they are. Raises ``Corrupt`` if the evaluation passes are not over the same tasks.
        """
        if column in self._passes:
            return self._passes[column]
        try:
            rows = self.final
            seeds = [int(seed) for seed in rows["evaluation_seed"].unique()]
            tasks = rows["task"].to_numpy().reshape(max(len(seeds), 1), -1)
            kinds = rows["kind"].to_numpy() if "kind" in rows else np.full(len(rows), "")
            values = (100 if column in _SHARES else 1) * rows[column].to_numpy(float).reshape(tasks.shape)
        except (KeyError, ValueError) as error:
            raise Corrupt(f"{self.path}: its episodes are not evaluation passes ({error})") from None
        if not seeds or (tasks != tasks[0]).any():
            raise Corrupt(f"{self.path}: its final test passes are not over one list of tasks")
        columns = pd.MultiIndex.from_arrays([kinds[: tasks.shape[1]], tasks[0]], names=["kind", "task"])
        return self._passes.setdefault(column, pd.DataFrame(values, index=seeds, columns=columns))

    @property
    def missing_episodes(self) -> str:
        """Say how many episodes an endpoint did not answer, and why."""
        count, reasons = sum(self.missing.values()), ", ".join(f"{n} x {why}" for why, n in self.missing.items())
        return f"{count} of {len(self.final) + count} episodes are missing ({reasons})"


@dataclass(frozen=True)
class RowKey:
    """Which row of an artefact a run belongs to.

    ``row`` names it, or is None for a run that is none of the artefact's. ``varies`` are the settings outside
    ``credit`` in which rows differ on purpose (dotted names, or their beginnings).
    """

    row: Callable[[Run], str | None]
    varies: tuple[str, ...] = ()


def settings(*names: str) -> RowKey:
    """Make rows of values of credit fields (or dotted names), written as in ``paper/reported``: ``n_min=2 b_min=2``."""
    return RowKey(lambda run: " ".join(f"{name.removeprefix('credit.')}={run.written(name)}" for name in names), names)


def _as_word(value: Any) -> str:
    """Return a value of a setting without spaces, which separate the settings of a row."""
    text = json.dumps(value, separators=(",", ":")) if value is None or isinstance(value, list | dict) else str(value)
    return re.sub(r"\s", "\N{NO-BREAK SPACE}", text)


def changed_since(identity: dict[str, Any]) -> list[str]:
    """Return the parts of a run's method whose version is another today."""
    today, versions = versions_today(identity), identity["method_versions"]
    return sorted(part for part, version in versions.items() if part in today and today[part] != version)


METHOD = RowKey(lambda run: run.method)
EVERY_METHOD: Mapping[str, RowKey] = dict.fromkeys(
    ("main_alfworld", "main_webshop", "main_sokoban", "main_sokoban_text", "headroom"), METHOD
)
"""The studies that compare all methods on an environment, and the one that adds the oracle to ALFWorld and WebShop."""


def evaluated(*envs: str) -> RowKey:
    """Make rows of the ways in which policies were asked, on these environments, each with settings of its own."""
    varies = ("prompting.", "policy.", "evaluation.", "agent.", "env.", "rollout.")
    return RowKey(lambda run: run.method if run.env in envs else None, varies)


# GraphGPO's own protocol differs from the matched one in the environment.
OBSERVATIONS = RowKey(lambda run: f"{run.method} {run['env.graph_key']}", ("env.graph_key", "env.prompt_state"))


@dataclass
class StudyRuns:
    """The complete runs of one study at one tier.

    ``skipped`` names what was left out and why; ``refused`` says why the runs of an (environment, model, row) must not
    be averaged. ``trials`` are folders that may hold a database of Optuna; a study in a later one counts. ``seeds`` are
    the training seeds that were asked for, none for all.
    """

    name: str
    tier: str
    runs: list[Run] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: dict[tuple[str, str, str], str] = field(default_factory=dict)
    key: RowKey = METHOD
    trials: tuple[Path, ...] = ()
    seeds: Sequence[int] = ()

    def only(self, condition: Callable[[Run], bool]) -> Self:
        """Keep the runs that meet a condition."""
        return replace(self, runs=[run for run in self.runs if condition(run)])

    @cached_property
    def rows(self) -> dict[str, list[Run]]:
        """The runs of each row, by training seed."""
        return grouped(sorted(self.runs, key=lambda r: (r.seed, r.id)), lambda run: str(self.key.row(run)))


class Studies(dict[str, StudyRuns]):
    """Several studies at one tier, by name."""

    @property
    def tier(self) -> str:
        """The tier of all of them."""
        return next(iter(self.values())).tier

    @property
    def runs(self) -> list[Run]:
        """The runs of all of them, each once."""
        return list({run.id: run for study in self.values() for run in study.runs}.values())

    def pooled(self) -> list[Run]:
        """Return the runs that may be compared across studies; the first study names the others as left out."""
        first = next(iter(self.values()))
        together = select(StudyRuns(first.name, self.tier), self.runs)
        first.skipped += [*together.skipped, *together.refused.values()]
        return together.runs


def select(study: StudyRuns, runs: Iterable[Run], allow_mixed: bool = False) -> StudyRuns:
    """Fill ``study`` with those of ``runs`` that may be compared; the others are named.

    1. Within an environment and model, all runs share every setting but their method's own and what the rows vary, and
       runs of the same loss share its settings. The oldest published run decides, else the newest run.
    2. A row is one setting, decided in the same way.
    3. A row of several method versions, test task sets or backends is refused, unless ``allow_mixed``.
    """
    expected: dict[tuple[str, ...], dict] = {}
    rows: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    by_age = sorted(runs, key=lambda r: (r.started, r.id))
    published = [run for run in by_age if run.published]
    settled = {(run.env, run.model) for run in published}
    for run in (*published, *(run for run in reversed(by_age) if not run.published)):
        row = study.key.row(run)
        if row is None:
            continue
        place, own = (run.env, run.model), (*_OF_A_METHOD, *study.key.varies)
        shared = {name: value for name, value in run.settings.items() if not name.startswith(own)}
        fixed = (name for name in run.settings if not name.startswith(("loss.ratio", *study.key.varies)))
        loss = {name: run.settings[name] for name in fixed if name.startswith("loss.")}
        other = _differences(expected.setdefault(place, shared), shared)
        other = other or _differences(expected.setdefault((*place, "loss", str(run["loss.name"])), loss), loss)
        other = other or _differences(expected.setdefault((*place, row), run.settings), run.settings)
        if other:
            norm, names = "published" if place in settled else "newer", ", ".join(sorted(other))
            study.skipped.append(f"{run.path}: set otherwise than {norm} runs of its study ({names})")
        else:
            rows[*place, row].append(run)
    for place, members in rows.items():
        reason = mixture(members)
        if reason and not allow_mixed:
            study.refused[place] = reason
        else:
            study.runs += members
    study.runs.sort(key=lambda r: r.id)
    return study


def mixture(runs: Iterable[Run]) -> str:
    """Say why these runs must not be averaged, naming them; empty if they may."""
    aspects: dict[str, Callable[[Run], str]] = {
        "method versions": lambda r: ", ".join(f"{k} {v}" for k, v in sorted(r.versions.items())) or "not recorded",
        "test task sets": lambda r: r.task_set,
        "backends": lambda r: " ".join([r["backend.name"], *_texts(r.identity["backend"])]),
    }
    reasons = []
    for aspect, value_of in aspects.items():
        groups = grouped(sorted(runs, key=lambda r: r.id), value_of)
        if len(groups) > 1:
            texts = (f"{value}: {' '.join(run.id for run in same)}" for value, same in groups.items())
            reasons.append(f"{aspect} {'; '.join(texts)}")
    return "mixed " + " and ".join(reasons) if reasons else ""


def _texts(backend: dict[str, Any]) -> list[str]:
    """Return what a backend's settings beside its name are, those that are part of a run's identity."""
    return [f"{name}={value}" for name, value in sorted(flat(backend).items()) if name != "name"]


def grouped(items: Iterable[T], value_of: Callable[[T], K]) -> dict[K, list[T]]:
    """Return runs, or other things, by a value of theirs; values and items keep their order."""
    groups = defaultdict(list)
    for item in items:
        groups[value_of(item)].append(item)
    return dict(groups)


def _differences(a: dict, b: dict) -> set[str]:
    """Return the names of settings that differ; an absent one has its neutral default, which None is not."""
    return {name for name in a.keys() | b.keys() if name not in a or name not in b or a[name] != b[name]}


def flat(tree: dict, prefix: str = "") -> dict[str, Any]:
    """Return nested settings under dotted names."""
    out: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        out |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return out
