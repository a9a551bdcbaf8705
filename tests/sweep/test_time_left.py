"""How long a sweep and a run still take: at the speed of the updates that are being made."""

import io
import time
from types import SimpleNamespace

import pytest

from bepo.runs import progress
from bepo.runs.progress import ProgressBar
from bepo.sweep.show import Brief, View

ESTIMATE = SimpleNamespace(estimate=lambda run, whole=False: SimpleNamespace(seconds=100.0 if whole else run.left))


def a_run(updates, left):
    state = SimpleNamespace(updates=updates, last={})
    config = SimpleNamespace(updates=10)
    folder = SimpleNamespace(rows=lambda stream: [{"time/update": 30.0, "cpu/update": 1.0}] * state.updates)
    read = {"folder": folder, "progress": lambda hashed=True: state}
    return SimpleNamespace(id=f"run{updates}", label="", config=config, left=left, **read)


@pytest.mark.parametrize("kind", [View, Brief])
def test_a_sweep_counts_at_the_pace_of_its_running_cells(kind, monkeypatch):
    monkeypatch.setattr("bepo.sweep.show.time.monotonic", lambda: 900.0)  # most of it was the warm start
    view = kind(ESTIMATE, 1, 2, out=io.StringIO())
    running, waiting = SimpleNamespace(run=a_run(0, 100.0), started=0.0), a_run(0, 100.0)
    view.started(running)
    assert "about 3 min 20 s left" in view._total_line([running], [waiting], 0)  # nothing is known yet
    running.run.progress().updates, running.run.left = 2, 80.0  # of 10: 20 s were expected, and 60 s they took
    assert "about 9 min 00 s left" in view._total_line([running], [waiting], 0)
    running.run.left = 0.0
    assert "the last evaluations are left" in view._total_line([running], [], 0)


def test_a_run_without_a_terminal_says_how_long_it_takes(monkeypatch):
    told = []
    monkeypatch.setattr(progress, "report", lambda phase, detail: told.append(detail))
    config = SimpleNamespace(credit=SimpleNamespace(name="grpo"), seed=0, updates=12, progress=False)
    bar = ProgressBar(config, done=2)
    bar._began = time.monotonic() - 60
    bar.advance({"update": 4, "train/success": 0.5, "train/return": 0.1})
    assert told == ["update 4 of 12, success 0.50, return 0.10, about 04:00 left"]  # 30 s an update
