"""Which runs a study consists of, read from the results folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from bepo import record

TIERS = ("smoke", "laptop", "paper")
# What may differ between the runs of one study: method, seed, and what cannot change a result.
_FREE = ("credit", "seed", "results", "tracking", "progress", "checkpoint_every", "save_rollouts", "study")


@dataclass
class Study:
    """The complete runs of one study at one tier; ``skipped`` says what was left out and why."""

    name: str
    scale: str
    records: list[record.Record] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """Evaluation episodes of all runs, with run id, method, seed and whether they are the run's final ones."""
        frames = [self._tagged(pd.DataFrame(r.episodes()), r) for r in self.records]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """Training metrics of all runs, one row an update."""
        frames = [self._tagged(pd.DataFrame(r.metrics()), r) for r in self.records]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @staticmethod
    def _tagged(frame: pd.DataFrame, source: record.Record) -> pd.DataFrame:
        return frame.assign(
            run=source.id,
            method=source.config["credit"]["name"],
            seed=source.config["seed"],
            final=frame["update"] == source.facts["result"]["updates"],
        )


def load(results: Path, name: str, scale: str) -> Study:
    """The study's cells point at run ids; incomplete, corrupt and foreign runs are named, never averaged."""
    study = Study(name, scale)
    for identifier in sorted(set(_members(results, name, scale, study.skipped))):
        try:
            found = record.read(results / "runs" / identifier)
        except record.CorruptRecord as error:
            study.skipped.append(str(error))
            continue
        if found.facts["scale"] != scale:
            study.skipped.append(f"{found.path}: its tier is {found.facts['scale']}, not {scale}")
            continue
        study.records.append(found)
    _keep_one_setting(study)
    return study


def _keep_one_setting(study: Study) -> None:
    """Leave out, by name, runs whose settings differ from the newest run's in anything but method and seed, and runs of
    a method whose estimator is set otherwise than in its newest run. Nothing is averaged over two settings."""
    newest_first = sorted(study.records, key=lambda r: r.facts["sessions"][-1]["started"], reverse=True)
    chosen: dict[str, dict] = {}
    kept = []
    for found in newest_first:
        settings = _flat({k: v for k, v in found.config.items() if k not in _FREE})
        credit = _flat({"credit": found.config["credit"]})
        expected = chosen.setdefault("settings", settings) | chosen.setdefault(found.config["credit"]["name"], credit)
        actual = settings | credit
        other = {k for k in expected.keys() | actual.keys() if expected.get(k) != actual.get(k)}
        if other:
            study.skipped.append(
                f"{found.path}: set otherwise than newer runs of its study ({', '.join(sorted(other))})"
            )
        else:
            kept.append(found)
    study.records = sorted(kept, key=lambda r: r.id)


def _flat(tree: dict, prefix: str = "") -> dict[str, object]:
    """Nested settings under dotted names."""
    out: dict[str, object] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        out |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return out


def scales(results: Path) -> list[str]:
    """Tiers that some study has runs at, from the least to the most meaningful."""
    present = {p.name for p in (results / "studies").glob("*/*") if p.is_dir()}
    return [t for t in TIERS if t in present]


def _members(results: Path, name: str, scale: str, skipped: list[str]) -> Iterator[str]:
    for cell in sorted((results / "studies" / name / scale).glob("*.json")):
        try:
            yield json.loads(cell.read_text())["run_id"]
        except (ValueError, KeyError, TypeError) as error:
            skipped.append(f"{cell}: not a study cell ({error!r})")
