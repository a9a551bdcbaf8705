"""Study files on Hydra's own launchers and sweepers."""

import json

import optuna
import pytest

from bepo.store.runs import read_run
from tests.command import SMALLEST, run

pytestmark = pytest.mark.slow  # these train

ONE = (*SMALLEST, "updates=2", "evaluation.every=1", "env=sokoban", "model=small")


def test_submitit(tmp_path):
    launcher = ("hydra/launcher=submitit_local", f"hydra.sweep.dir={tmp_path / 'jobs'}")
    settings = (*ONE, f"results={tmp_path}", "credit=grpo", "seed=1")
    code, _, err = run("-cd", "experiments", "-cn", "main_sokoban", *launcher, *settings)
    assert code == 0, err
    (path,) = tmp_path.glob("runs/*/run.json")
    assert read_run(path.parent).config["seed"] == 1
    (cell,) = tmp_path.glob("studies/main_sokoban/smoke/*.json")
    assert json.loads(cell.read_text())["run_id"] == path.parent.name


def test_an_optuna_study_on_the_plain_sweeper(tmp_path):
    """The objective is the mean over the study's training seeds."""
    settings = (*ONE, f"results={tmp_path}", "hydra.sweeper.n_trials=1", "hydra/launcher=basic", "study.seeds=[3,4]")
    code, _, err = run("-cd", "experiments", "-cn", "tune_gated_bepo", *settings)
    assert code == 0, err
    runs = [read_run(p.parent) for p in tmp_path.glob("runs/*/run.json")]
    assert {r.config["seed"] for r in runs} == {3, 4}
    study = optuna.load_study(study_name="tune_gated_bepo.sokoban.smoke", storage=f"sqlite:///{tmp_path}/studies.db")
    (trial,) = study.trials
    episodes = [row for item in runs for row in item.episodes()]
    validation = [r["success"] for r in episodes if r["split"] == "validation" and r["update"] == 2]
    assert trial.value == pytest.approx(sum(validation) / len(validation))
    assert runs[0].config["credit"]["step_weight"] == pytest.approx(trial.params["credit.step_weight"])
