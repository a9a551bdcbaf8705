"""``bepo.load``: runs and studies as tidy tables, with one observation per row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError, unknown_choice, why
from bepo.explore.columns import stored_archives, table_of
from bepo.runs.config import TIERS, with_neutral_defaults
from bepo.store.find import each_readable, existing, find_runs, read_every
from bepo.store.run_files import StoredRun, success_of

_NOT_COMPARED = (
    "tracking",
    "health",
    "results",
    "progress",
    "study",
    "digest",
    "checkpoint_every",
    "checkpoints",
    "keep",
)


def load(*names: str | PathLike[str], results: str | PathLike[str] = "results", tier: str | None = None) -> Runs:
    """Return runs as tables.

    Each name is a study, a run ID or its beginning, a run folder, an archive (.zip) or a results folder. Without names,
    load every run of ``results`` and every published run. ``tier`` limits what is loaded. Runs in progress are
    included.

    Raises ``UserError`` for an unknown name or tier, or if the folder ``results`` does not exist. Raises ``Corrupt``
    for a named run whose files changed. Without names, such a run is skipped with a line on standard error.
    """
    if tier not in (None, *TIERS):
        raise unknown_choice("tier", tier, TIERS)
    if results == "":
        raise UserError("results='': must name a folder; '.' is the current folder")
    folder = existing(Path(results).expanduser())
    for name in names:
        if not isinstance(name, str | PathLike):
            raise UserError(f"{name!r}: names of runs are text, also those of digits alone; put it in quotes")
    if names:
        stored = [run for name in names for run in find_runs(str(name), folder, tier)]
    else:
        stored = read_every(folder, tier, stored_archives())
    runs = {run.id: run for run in stored if tier in (None, run.config.get("tier"))}
    if not runs:
        raise UserError(f"results={folder}: no run" + (f" of tier {tier}" if tier else ""))
    return Runs(list(runs.values()))


@dataclass(repr=False)
class Runs:
    """Runs, complete or in progress, as tidy tables.

    Every table begins with ``run`` (the run ID), ``env``, ``credit`` and ``seed``. Then come the other settings in
    which the runs differ, under their dotted names. The setting ``run``, whose policy is evaluated, is in ``settings``.
    """

    stored: Sequence[StoredRun]

    def __repr__(self) -> str:
        """Return the table of the runs as text."""
        return repr(self.runs)

    def _repr_html_(self) -> str:
        """Return the table of the runs, for notebooks."""
        return self.runs.to_html(index=False)

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run: ``status``, ``tier``, ``model``, ``updates`` made, ``success`` in [0, 1], ``path``."""
        return pd.DataFrame([{**self._key(run), **summary} for run, summary in each_readable(self.stored, _summary)])

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per update of a run, with every column of ``metrics.jsonl`` (docs/files.md)."""
        return self._stream("metrics")

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """One row per evaluation episode. ``final``: whether the policy after the newest update played it."""
        return self._stream("episodes")

    @cached_property
    def transcripts(self) -> pd.DataFrame:
        """One row per step of a test episode of the last policy: ``prompt``, ``response``, ``action``, and so on.

        Empty if the runs have no transcripts, as in most published archives.
        """
        return self._table(
            (run, {name: value for name, value in episode.items() if name != "steps"} | {"step": number, **step})
            for run, episodes in each_readable(self.stored, lambda run: run.transcripts())
            for episode in episodes
            for number, step in enumerate(episode["steps"])
        )

    @property
    def settings(self) -> pd.DataFrame:
        """The settings in which the runs differ: one row per setting, one column per run."""
        return pd.DataFrame({run.id: self._varying[run.id] for run in self.stored}, dtype=object)

    def to_parquet(self, folder: str | PathLike[str]) -> Path:
        """Write the tables as ``runs``, ``metrics``, ``episodes`` and ``transcripts.parquet``, and return the folder.

        docs/files.md has the schema. A column with values of several types becomes text. Raises ``UserError`` if the
        folder cannot be written.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name in ("runs", "metrics", "episodes", "transcripts"):
                _storable(getattr(self, name)).to_parquet(place / f"{name}.parquet")
        except OSError as error:
            raise UserError(f"{place}: cannot be written ({why(error)})") from error
        return place

    def kept(self) -> list[tuple[str, int]]:
        """Return the run ID and the update of every stored rollout batch."""
        return [(run.id, update) for run in self.stored for update in sorted(run.rollouts())]

    def rollouts(self, run: str | None = None, update: int | None = None) -> RolloutBatch:
        """Return a stored rollout batch of a run and an update (default: the last stored update).

        ``run`` can be left out for a single run. Raises ``UserError`` if the batch does not exist.
        """
        kept = [place for place in self.kept() if run in (None, place[0]) and update in (None, place[1])]
        if not kept or len({place[0] for place in kept}) > 1:
            places = ", ".join(f"({name!r}, {n})" for name, n in self.kept())
            raise UserError(f"rollouts({run!r}, {update!r}): must name one stored batch; choices: {places or 'none'}")
        return read_rollouts({stored.id: stored for stored in self.stored}[kept[-1][0]], kept[-1][1])

    @cached_property
    def _varying(self) -> dict[str, dict[str, Any]]:
        return differing({run.id: run.config for run in self.stored})

    def _key(self, run: StoredRun) -> dict[str, Any]:
        config = run.config
        key = {"run": run.id, "env": config["env"]["name"], "credit": config["credit"]["name"], "seed": config["seed"]}
        settings = self._varying[run.id].items()
        return key | {name: value for name, value in settings if name not in key and not name.endswith(".name")}

    def _stream(self, stream: str) -> pd.DataFrame:
        """Return the rows of all runs, with the columns that their files have, and ``final`` of episodes."""
        tables = []
        for run, table in each_readable(self.stored, lambda run: table_of(run, stream)):
            key = {name: [value] * len(table) for name, value in self._key(run).items()}
            tables.append(pd.concat([pd.DataFrame(key), table], axis="columns"))
        return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)

    def _table(self, rows: Iterable[tuple[StoredRun, Mapping[str, Any]]]) -> pd.DataFrame:
        keys = {run.id: self._key(run) for run in self.stored}
        return pd.DataFrame([{**keys[run.id], **row} for run, row in rows])


def _storable(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which columns of several types, or of lists and mappings, are JSON texts."""
    types = {name: {type(value) for value in table[name].dropna()} for name in table if table[name].dtype == object}
    mixed = [name for name, kinds in types.items() if len(kinds) > 1 or kinds & {list, dict}]
    return table.assign(**{str(name): table[name].map(json.dumps, na_action="ignore") for name in mixed})


def read_rollouts(run: StoredRun, update: int) -> RolloutBatch:
    """Read a stored rollout batch of a run. Raises ``UserError`` for a damaged file."""
    return RolloutBatch.load(BytesIO(run.read(run.rollouts()[update])))


def differing(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings in which configs differ, for each config, under dotted names.

    None means that a config does not have the field. A setting that is null is the text ``null``, so that ``groupby``
    keeps its rows. Settings of a plug-in are compared only between configs with the same plug-in: ``credit.gamma``
    differs if two runs of one estimator have different values. A setting that is newer than a run has its default.
    Settings that change no number, such as the results folder, are left out.
    """
    plain = {name: dict(flat(with_neutral_defaults(config))) for name, config in configs.items()}
    values: dict[tuple[str, Any], set[str]] = {}
    for config in plain.values():
        for field, value in config.items():
            part = field.partition(".")[0]
            kind = None if field == f"{part}.name" else config.get(f"{part}.name")
            values.setdefault((field, kind), set()).add(repr(value))
    absent = {field for field, kind in values if kind is None and any(field not in config for config in plain.values())}
    names = dict.fromkeys(field for (field, _), texts in values.items() if len(texts) > 1 or field in absent)
    shown = {name: {f: "null" if v is None else v for f, v in config.items()} for name, config in plain.items()}
    return {name: {field: config.get(field) for field in names} for name, config in shown.items()}


def unusual(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return for each config the settings in which it differs from most others, such as ``gae_lambda=0.5``.

    Settings of the estimator come first, without ``credit.``, then the model. Values that more than half of the configs
    have are not shown, and neither are seeds that follow the training seed.
    """
    words: dict[str, list[str]] = {name: [] for name in configs}
    different = differing(configs)
    fields = next(iter(different.values()), {})
    for field in sorted(fields, key=lambda field: (not field.startswith("credit."), field != "model")):
        values = {name: config[field] for name, config in different.items()}
        counts = Counter(map(str, values.values()))
        for name, value in values.items():
            follows = field.endswith("seed") and value == configs[name].get("seed")
            if value is not None and not follows and counts[str(value)] <= len(configs) / 2:
                words[name].append(f"{field.removeprefix('credit.')}={value}")
    return words


def question_of(study: str, configs: Iterable[Mapping[str, Any]]) -> str:
    """Return the question of a study, as the config of one of its own runs has it. Shared runs name another study."""
    about = (config.get("study", {}) for config in configs)
    return next((str(item.get("question") or "") for item in about if item.get("name") == study), "")


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a config under dotted names, except those that change no number."""
    for key, value in tree.items():
        if not prefix and key in _NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _summary(run: StoredRun) -> dict[str, Any]:
    result = run.metadata.get("result", {})
    return {
        "status": "complete" if run.metadata and not result.get("missing") else "partial",
        "tier": run.config.get("tier"),
        "model": run.config.get("model", "small"),
        "updates": result.get("updates", len(run.metrics()) if not run.metadata else None),
        "success": success_of(result),
        "path": str(run.path),
    }
