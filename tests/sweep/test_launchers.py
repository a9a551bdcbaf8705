"""Study files on Hydra's own launchers and sweepers."""

import json

import optuna
import pytest

from bepo.store.stored import read_run
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


OPTUNA = ("-m", "hydra/sweeper=optuna", "hydra/launcher=basic", "hydra.sweeper.n_jobs=1", "hydra.sweeper.n_trials=1")


def test_hydras_optuna_sweeper_optimises_validation_success(tmp_path):
    database = f"sqlite:///{tmp_path}/optuna.db"
    study = ("hydra.sweeper.study_name=plain", f"hydra.sweeper.storage={database}", "hydra.sweeper.direction=maximize")
    code, out, err = run(*OPTUNA, *study, *ONE, f"results={tmp_path}", "credit.gamma=0.9,0.95")
    assert code == 0, out + err
    (path,) = tmp_path.glob("runs/*/run.json")
    rows = [row for row in read_run(path.parent).episodes() if row["split"] == "validation" and row["update"] == 2]
    (trial,) = optuna.load_study(study_name="plain", storage=database).trials
    assert trial.value == sum(row["success"] for row in rows) / len(rows)


@pytest.mark.parametrize(
    "override, problem",
    [
        ("seed=0", "hydra.sweeper.direction=minimize: the objective is validation success; choices: maximize"),
        ("hydra.sweeper.direction=[maximize,minimize]", "the objective is validation success; choices: maximize"),
        ("hydra.sweeper._target_=some.AxSweeper", "unknown sweeper 'some.AxSweeper'; choices: hydra/sweeper=basic"),
        ("+hydra.callbacks.x={_target_: os.system, command: ls}", "Target 'os.system' cannot be authorized"),
    ],
)
def test_another_objective_is_refused_before_anything_runs(tmp_path, override, problem):
    directions = ("hydra.sweeper.direction=maximize",) if "every" in override else ()
    code, out, err = run(*OPTUNA, *ONE, *directions, f"results={tmp_path}", "credit.gamma=0.9,0.95", override)
    assert code == 2 and out == "" and not list(tmp_path.iterdir())
    assert err.startswith("error: ") and problem in err and len(err.splitlines()) == 1, err
