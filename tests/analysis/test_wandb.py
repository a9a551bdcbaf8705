"""Runs that come back from W&B are those that went: what the tracker leaves offline, served by a stand-in."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import wandb

from analysis.__main__ import main
from analysis.data.sources import Source, open_source
from bepo.store.cells import files_of_run, note_cell
from bepo.store.tracking import Labels, Tracking
from bepo.store.tracking.wandb import Tracker, upload_cells
from tests.stored_runs import write_run

pytestmark = pytest.mark.slow

PASSES = ((1, 0), (1, 1))
LABELS = Labels("sokoban seed=0", "main_sokoban", "training")


@dataclass
class File:
    """A file of a W&B run, as its public API shows it."""

    name: str
    path: Path
    updated_at: str

    def download(self, root, replace):
        target = Path(root) / self.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.path, target)
        return target.open()


class Server:
    """What ``wandb sync`` would upload from these folders: the files of each offline run, oldest first."""

    def __init__(self, *folders):
        self.offline = [p for folder in folders for p in sorted(folder.glob("**/offline-run-*/files"))]
        self.asked = []

    def Api(self):
        return self

    def runs(self, project):
        self.asked.append(project)
        return [self.Run(folder, i) for i, folder in enumerate(self.offline)]

    @dataclass
    class Run:
        folder: Path
        age: int

        def files(self):
            found = sorted(p for p in self.folder.rglob("*") if p.is_file())
            return [File(str(p.relative_to(self.folder)), p, f"2026-01-0{self.age + 1}") for p in found]


def track(run, results):
    tracker = Tracker(Tracking("offline"), run.id, run.path, LABELS)
    tracker.finish({"test_success": 0.5}, files_of_run(results, run.id), results)


@pytest.fixture
def results(tmp_path):
    """Two runs of a study, tracked offline; a second study came to share one of them later."""
    results = tmp_path / "results"
    for seed in (0, 1):
        run = write_run(results, "main_sokoban", {"model": "vl", "seed": seed}, PASSES)
        track(run, results)
    note_cell(results, "shared", "laptop", ["seed=1"], run.id)
    assert upload_cells(Tracking("offline"), results) == 3
    return results


def test_the_frames_are_those_of_the_folder(results, tmp_path, monkeypatch):
    server = Server(results)
    monkeypatch.setattr(wandb, "Api", server.Api)
    theirs = open_source(tmp_path / "elsewhere", "wandb:someone/bepo")
    assert server.asked == ["someone/bepo"] and theirs.tiers() == ["laptop"]
    for name, runs in (("main_sokoban", 2), ("shared", 1)):
        mine, other = Source(results).study(name, "laptop"), theirs.study(name, "laptop")
        assert len(other.runs) == runs and not other.skipped
        for a, b in zip(mine.runs, other.runs, strict=True):
            pd.testing.assert_frame_equal(a.episodes, b.episodes)
            pd.testing.assert_frame_equal(a.metrics, b.metrics)
        assert [r.metadata for r in mine.runs] == [r.metadata for r in other.runs]


def test_what_is_there_already_is_not_fetched_again_and_the_newest_cell_counts(results, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setattr(wandb, "Api", Server(results).Api)
    first = open_source(elsewhere, "wandb:someone/bepo")
    kept = {p: p.stat().st_ino for p in first.results.glob("runs/*/*")}
    assert len(kept) == 10
    replaced = write_run(results, "main_sokoban", {"model": "vl", "seed": 1}, PASSES, task_set="newer")
    tracker = Tracker(Tracking("offline"), replaced.id, replaced.path, LABELS)
    tracker.finish({}, files_of_run(results, replaced.id), results)
    server = Server(results)
    server.offline.sort(key=lambda p: replaced.id in str(p))
    monkeypatch.setattr(wandb, "Api", server.Api)
    again = open_source(elsewhere, "wandb:someone/bepo")
    assert {p: p.stat().st_ino for p in kept} == kept
    assert [r.id for r in again.study("main_sokoban", "laptop", allow_mixed=True).runs if r.seed == 1] == [replaced.id]


def test_artefacts_are_rebuilt_from_a_project(results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(wandb, "Api", Server(results).Api)
    options = ["--results", str(tmp_path / "elsewhere"), "--source", "wandb:someone/bepo"]
    assert main(["explain", "sokoban-main/Success/Gated-BEPO", *options]) == 0
    assert "75 ± 0 (tier laptop" in capsys.readouterr().out


def test_a_project_that_cannot_be_read_is_one_line(tmp_path, monkeypatch, capsys):
    def refuse():
        raise wandb.errors.CommError("Could not find project bepo\nmore")

    monkeypatch.setattr(wandb, "Api", refuse)
    assert main(["--results", str(tmp_path), "--source", "wandb:someone/bepo"]) == 2
    assert capsys.readouterr().err == (
        "error: W&B project someone/bepo: cannot be read (Could not find project bepo)\n"
    )
