"""What W&B is told of a run before it begins."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from bepo.credit import estimators
from bepo.runs.compose import register_configs
from bepo.runs.wandb_labels import labels_of
from bepo.store.cells import note_cell
from bepo.store.runs import RunFolder
from bepo.store.tracking import Labels, Tracking
from bepo.store.tracking.wandb import Tracker
from bepo.sweep.studies import compose_study

register_configs()


@pytest.fixture(scope="module")
def config():
    return compose_study("main_sokoban", ["tier=smoke", "model=small", "credit=grpo", "seed=0"]).configured[0][1]


@pytest.mark.parametrize(
    "name, warning", [("grpo", set()), ("oracle", {"control"}), ("gagpo", {"reconstruction"}), ("ppo", set())]
)
def test_a_control_and_a_reconstruction_are_tagged_as_such(config, tmp_path, name, warning):
    config = replace(config, credit=estimators()[name](), results=str(tmp_path))
    labels = labels_of(config, RunFolder(tmp_path, "abc"))
    assert set(labels.tags) == {"smoke", "sokoban", "small", name} | warning
    assert labels.config["method"] == name


def test_a_trial_is_tagged_with_its_number_and_every_study_that_shares_it(config, tmp_path):
    config = replace(config, results=str(tmp_path), study={"name": "tune_x", "objectives": ["validation_success"]})
    note_cell(tmp_path, "tune_x", "smoke", ["credit=grpo"], "abc", ["trial=3", "seed=0"])
    note_cell(tmp_path, "grid", "smoke", ["credit=grpo"], "abc", ["credit=grpo", "seed=0"])
    labels = labels_of(config, RunFolder(tmp_path, "abc"), ["credit=grpo"])
    assert (labels.group, labels.job_type, labels.name) == ("tune_x", "tuning", "sokoban trial=3 seed=0")
    assert {"trial=3", "tune_x", "grid"} < set(labels.tags)
    assert labels.config["trial"] == 3 and labels.config["studies"] == ["grid", "tune_x"]


@pytest.mark.parametrize("offline, step, logged", [(True, 0, [1, 2, 3]), (False, 0, [1, 2, 3]), (False, 3, [3])])
def test_earlier_rows_are_logged_that_wandb_lacks(tmp_path, monkeypatch, offline, step, logged):
    """Online, a run that continues a shorter one has a new ID, and one that began offline is unknown to the server."""
    rows = []
    run = SimpleNamespace(offline=offline, step=step, log=lambda row, step: rows.append(step))
    monkeypatch.setattr("bepo.store.tracking.wandb._begin", lambda *arguments: run)
    tracker = Tracker(
        Tracking(mode="online"), "abc", tmp_path, Labels("abc", "", "training"), [{"update": 1}, {"update": 2}]
    )
    tracker.log({"update": 3})
    assert rows == logged
