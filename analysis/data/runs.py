"""A complete run, with its config, metrics and episodes as tables."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from analysis.data.methods import method_of
from bepo.core.batch import RolloutBatch
from bepo.explore.columns import table_of
from bepo.explore.names import preset_of
from bepo.runs.config import versions_today, with_neutral_defaults
from bepo.store.files import Corrupt, digest
from bepo.store.run_files import StoredRun

# Not in Run.settings: runs are averaged over seeds, and studies.py compares backends and method versions itself.
_LOOKED_AT = ("seed", "backend", "method_versions")
_SHARES = ("success", "task_score", "valid", "broken")  # columns of episodes that are shown in per cent

T = TypeVar("T")
K = TypeVar("K")


class Run:
    """A complete run: its config under dotted names, its rows as frames.

    ``settings``: its identity without seed, backend and method versions. A neutral field is absent if it has its
    default. ``preset``: the method, or the preset that is another paper's method. ``task_set``: the digest of the test
    tasks. ``missing``: the number of episodes that an endpoint did not answer, by reason. ``commits``: for each session
    the commit, and whether there were uncommitted changes. ``cpus``: the processors it ran on, with their vector
    instructions. ``published``: whether it is one of the published runs, wherever it was read from.
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
            credit = self.config["credit"]
            self.preset = (preset_of(credit) if self.method == credit["name"] else None) or self.method
            self.missing = {str(k): int(n) for k, n in (self.metadata["result"].get("missing") or {}).items()}
            self.task_set = str(self.metadata["task_sets"]["test"]["digest"])
            self.tasks = int(self.metadata["task_sets"]["test"]["tasks"])
            self.versions: dict[str, int] = dict(self.identity["method_versions"])
            for part in ("env", "backend", *(("credit",) if self.updates else ())):  # evaluations have no estimator
                _ = self.identity[part]["name"]
            self.environment_metadata: dict[str, object] = dict(self.metadata.get("environment", {}))
            self.started = str(self.metadata["sessions"][-1]["started"])
            commits = [(s.get("commit") or "unknown", s.get("dirty")) for s in map(dict, self.metadata["sessions"])]
            self.commits = [(commit[:10], bool(dirty)) for commit, dirty in commits]
            self.searches = {s.get("study") for s in self.metadata["sessions"] if s.get("job") == "tuning"}
            self.cpus = {_processor(session["machine"]) for session in self.metadata["sessions"]}
        except (KeyError, IndexError, TypeError, ValueError) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise Corrupt(f"{self.path}: not a run of this bepo, {why}") from None

    def __getitem__(self, name: str) -> Any:
        """Return a setting by its dotted name, also without a leading ``credit.``; None if the run does not have it."""
        known = [full for full in (name, f"credit.{name}") if full in self._named]
        return self._named[known[0]] if known else None

    def written(self, name: str) -> str | None:
        """Return a setting as one word (``null`` for None); None if the run does not have it."""
        known = [full for full in (name, f"credit.{name}") if full in self._named]
        return _as_word(self._named[known[0]]) if known else None

    @property
    def is_evaluation(self) -> bool:
        """Whether it is an evaluation without training."""
        return self.updates == 0

    @cached_property
    def fingerprint(self) -> frozenset[tuple[str, str]]:
        """The settings as text; runs that differ in their seeds alone have the same."""
        return frozenset((name, str(value)) for name, value in self.settings.items())

    @cached_property
    def changed_since(self) -> list[str]:
        """The parts of the method whose version has changed since the run was trained."""
        return changed_since(self.identity)

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """One row per evaluation episode; ``final``: whether it is from the last policy."""
        return table_of(self._stored, "episodes")

    @cached_property
    def final(self) -> pd.DataFrame:
        """The episodes of the last policy on the test tasks."""
        return self.episodes.iloc[self._final]

    @cached_property
    def _final(self) -> np.ndarray:
        """The places of the final test episodes among all episodes."""
        rows = self.episodes
        return np.flatnonzero(rows["final"].to_numpy() & (rows["split"].to_numpy() == "test"))

    @cached_property
    def success_before(self) -> float | None:
        """The share of the test tasks solved before training; None if it was not evaluated.

        It shows different warm starts, which different processors can produce.
        """
        rows = self.episodes
        before = rows.loc[(rows["split"] == "test") & (rows["update"] == 0), "success"]
        return float(before.astype(float).mean()) if len(before) else None

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per update, numbers only; empty if the rows have no update number.

        ``seconds/<stage>``: the cost of a stage, in CPU seconds for a run on a CPU, else in wall-clock seconds.
        """
        table, clock = table_of(self._stored, "metrics"), self._stored.clock
        if "update" not in table:
            return pd.DataFrame()
        costs = {name.replace(clock, "seconds/", 1): table[name] for name in map(str, table) if name.startswith(clock)}
        return pd.concat([table, pd.DataFrame(costs, index=table.index)], axis="columns")

    @cached_property
    def learned(self) -> str:
        """A digest of training metrics and test results. Different settings may give bit-identical runs."""
        rows = self.metrics
        names = sorted(name for name in rows if name.startswith("train/"))
        success = self.episodes["success"].tolist() if "success" in self.episodes else self.id
        return digest(repr((self.seed, names, success)).encode() + rows[names].to_numpy(float).tobytes())

    @property
    def kept_updates(self) -> list[int]:
        """The updates whose rollout batch was kept."""
        return sorted(self._stored.rollouts())

    def rollouts(self, update: int) -> RolloutBatch:
        """Read the kept rollout batch of an update."""
        return RolloutBatch.load(BytesIO(self._stored.read(self._stored.rollouts()[update])))

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over updates. Raises ``KeyError`` if it was not logged."""
        return float(np.mean(self.metrics[metric]))

    def passes(self, column: str = "success") -> pd.DataFrame:
        """Return the results of the final policy on the test tasks: (evaluation seeds, tasks by kind).

        ``success``, ``task_score``, ``valid`` and ``broken`` are in per cent; other columns are unchanged. Raises
        ``Corrupt`` if the evaluation passes are not over the same tasks.
        """
        if column in self._passes:
            return self._passes[column]
        try:
            rows, final = self.episodes, self._final
            seeds = [*dict.fromkeys(rows["evaluation_seed"].to_numpy()[final].tolist())]
            tasks = rows["task"].to_numpy()[final].reshape(max(len(seeds), 1), -1)
            kinds = rows["kind"].to_numpy()[final] if "kind" in rows else np.full(len(final), "")
            values = (100 if column in _SHARES else 1) * rows[column].to_numpy(float)[final].reshape(tasks.shape)
        except (KeyError, ValueError) as error:
            raise Corrupt(f"{self.path}: its episodes are not evaluation passes ({error})") from None
        if not seeds or (tasks != tasks[0]).any():
            raise Corrupt(f"{self.path}: its final test passes have different lists of tasks")
        columns = _tasks_by_kind(tuple(kinds[: tasks.shape[1]]), tuple(tasks[0]))
        return self._passes.setdefault(column, pd.DataFrame(values, index=seeds, columns=columns))

    @property
    def missing_episodes(self) -> str:
        """A message on how many episodes an endpoint did not answer, and why."""
        count, reasons = sum(self.missing.values()), ", ".join(f"{n} x {why}" for why, n in self.missing.items())
        return f"{count} of {len(self.final) + count} episodes are missing ({reasons})"


@lru_cache(maxsize=100)
def _tasks_by_kind(kinds: tuple[str, ...], tasks: tuple[str, ...]) -> pd.MultiIndex:
    """Return the columns of a run's passes. Runs share their test tasks, and an index takes long to make."""
    return pd.MultiIndex.from_arrays([kinds, tasks], names=["kind", "task"])


def _as_word(value: Any) -> str:
    """Return a value without spaces, because spaces separate the settings of a row."""
    text = json.dumps(value, separators=(",", ":")) if value is None or isinstance(value, list | dict) else str(value)
    return re.sub(r"\s", "\N{NO-BREAK SPACE}", text)


def changed_since(identity: dict[str, Any]) -> list[str]:
    """Return the parts of a run's method whose version has changed since."""
    today, versions = versions_today(identity), identity["method_versions"]
    return sorted(part for part, version in versions.items() if part in today and today[part] != version)


def grouped(items: Iterable[T], value_of: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by a value. Groups and items keep their order."""
    groups = defaultdict(list)
    for item in items:
        groups[value_of(item)].append(item)
    return dict(groups)


def flat(tree: dict, prefix: str = "") -> dict[str, Any]:
    """Return nested settings under dotted names."""
    out: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        out |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return out


def _processor(machine: Mapping[str, Any]) -> str:
    model, vectors = str(machine["cpu"]), machine.get("instructions")
    return f"{model} with {vectors}" if vectors else model
