"""Study files on Hydra's own launchers and sweepers."""

import json

import optuna
import pytest

from bepo.store.run_files import read_run
from tests.command import SMALLEST, python, run

pytestmark = [pytest.mark.slow, pytest.mark.long]  # these train

ONE = (*SMALLEST, "updates=2", "evaluation.every=1", "env=sokoban", "model=small")


def test_submitit(tmp_path):
    launcher = ("hydra/launcher=submitit_local", f"hydra.sweep.dir={tmp_path / 'jobs'}")
    settings = (*ONE, f"results={tmp_path}", "credit=grpo", "seed=1")
    code, _, err = run("-cd", "experiments", "-cn", "main_sokoban", *launcher, *settings)
    assert code == 0, err
    (path,) = tmp_path.glob("runs/*/run.json")
    assert read_run(path.parent).config["seed"] == 1
    (cell,) = tmp_path.glob("studies/main_sokoban/smoke/*.json")
    assert json.loads(cell.read_text(encoding="utf-8"))["run_id"] == path.parent.name


def test_an_optuna_study_on_the_plain_sweeper(tmp_path):
    """The objective is the mean over the study's training seeds, and settings that name the seed follow it."""
    settings = (*ONE, f"results={tmp_path}", "hydra.sweeper.n_trials=1", "hydra/launcher=basic", "study.seeds=[3,4]")
    settings += ("policy.seed=${seed}",)
    code, _, err = run("-cd", "experiments", "-cn", "tune_gated_bepo", *settings)
    assert code == 0, err
    runs = [read_run(p.parent) for p in tmp_path.glob("runs/*/run.json")]
    assert {(r.config["seed"], r.config["policy"]["seed"]) for r in runs} == {(3, 3), (4, 4)}
    study = optuna.load_study(study_name="tune_gated_bepo.sokoban.smoke", storage=f"sqlite:///{tmp_path}/studies.db")
    (trial,) = study.trials
    episodes = [row for item in runs for row in item.episodes()]
    validation = [r["success"] for r in episodes if r["split"] == "validation" and r["update"] == 2]
    assert trial.value == pytest.approx(sum(validation) / len(validation))
    assert runs[0].config["credit"]["step_weight"] == pytest.approx(trial.params["credit.step_weight"])


OPTUNA = ("-m", "hydra/sweeper=optuna", "hydra/launcher=basic", "hydra.sweeper.n_jobs=1", "hydra.sweeper.n_trials=1")


def test_hydras_optuna_sweeper_optimises_validation_success_and_stores_its_trials_by_default(tmp_path):
    """The same command goes on with its study, and another search has another one."""
    search = (*OPTUNA, "hydra.sweeper.direction=maximize", *ONE, f"results={tmp_path}")
    for space in ("credit.gamma=choice(0.9)", "credit.gamma=choice(0.9)", "credit.gamma=0.9,0.9"):
        code, out, err = run(*search, space)
        assert code == 0, out + err
        assert "validation success" in out and "test success" not in out
    (path,) = tmp_path.glob("runs/*/run.json")
    rows = [row for row in read_run(path.parent).episodes() if row["split"] == "validation" and row["update"] == 2]
    found = optuna.get_all_study_summaries(storage=f"sqlite:///{tmp_path}/studies.db")
    assert sorted(study.n_trials for study in found) == [1, 2]
    for study in found:
        assert study.study_name.startswith("search_gamma_") and study.study_name.endswith(".sokoban.smoke")
        assert study.user_attrs["objectives"] == ["validation_success"]
        assert study.best_trial.value == sum(row["success"] for row in rows) / len(rows)
    journal = f"hydra.sweeper.storage={tmp_path}/trials.journal"
    assert "Hydra's sweeper knows databases only" in run(*search, "credit.gamma=choice(0.9)", journal)[2]


def test_an_interval_needs_the_optuna_sweeper(tmp_path):
    code, _, err = run("-m", *ONE, f"results={tmp_path}", "credit.gamma=interval(0.9,1)")
    assert code == 2 and "hydra/sweeper=optuna, which searches the interval" in err and len(err.splitlines()) == 1


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


def test_equal_cells_of_a_multirun_are_one_run(tmp_path):
    """The second of two equal cells waits for the first, which another process trains."""
    settings = (*ONE, f"results={tmp_path}", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    cells = ("seed=3,3", "training.learning_rate=1e-3,0.001")
    done = python("-m", "bepo.train", "-m", *settings, *cells)  # joblib's workers do not end in a fork
    assert done.returncode == 0 and "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    (path,) = tmp_path.glob("runs/*/run.json")
    assert read_run(path.parent).config["seed"] == 3


def test_a_multirun_names_cells_that_train_the_same(tmp_path):
    settings = ("-m", *ONE, "updates=1", f"results={tmp_path}", "credit=gated_bepo", "hydra/launcher=basic")
    code, _, err = run(*settings, "credit.n_min=1,2")
    assert code == 0 and "NO EFFECT  credit.n_min=1 and 2 train the same: credit.b_min=2" in err, err


SEARCH = (*OPTUNA, "hydra.sweeper.study_name=plain", "hydra.sweeper.direction=maximize")


def test_hydras_sweeper_does_not_propose_the_same_settings_again(tmp_path):
    database = f"sqlite:///{tmp_path}/optuna.db"
    search = (*SEARCH, f"hydra.sweeper.storage={database}", *ONE, f"results={tmp_path}", "credit.gamma=interval(0.9,1)")
    for seed, expected in ((1, 0), (1, 2), (2, 0)):
        code, out, err = run(*search, f"hydra.sweeper.sampler.seed={seed}")
        assert code == expected, out + err
    assert "hydra.sweeper.sampler.seed=1" in run(*search, "hydra.sweeper.sampler.seed=1")[2]
    first, second = optuna.load_study(study_name="plain", storage=database).trials
    assert first.params != second.params
    code, _, err = run(*search[:-1], "credit.gamma=interval(0.5,1)")
    assert code == 2 and "credit.gamma was interval(0.9, 1.0) and is interval(0.5, 1.0)" in err
    assert len(err.splitlines()) == 1


def test_hydras_sweeper_goes_on_after_a_refused_trial(tmp_path):
    """credit.solver=exact needs the mean backup; credit.backup=max is fixed."""
    space = ("credit.mixing=dynamic", "credit.backup=max", "credit.solver=choice(exact,iterate)", "study.seeds=[0]")
    settings = (*ONE, f"results={tmp_path}", "hydra/launcher=basic", "hydra.sweeper.n_trials=4")
    code, out, err = run(
        "-cd", "experiments", "-cn", "tune_every_axis", *settings, *space, "hydra.sweeper.sampler.seed=0"
    )
    assert code == 0 and "needs credit.backup=mean, not 'max'" in err, out + err
    storage = f"sqlite:///{tmp_path}/studies.db"
    trials = optuna.load_study(study_name="tune_every_axis.sokoban.smoke", storage=storage).trials
    refused = [trial.params["credit.solver"] == "exact" for trial in trials]
    assert len(trials) == 4 and any(refused) and not all(refused)
    assert [trial.state.name == "FAIL" for trial in trials] == refused


def test_a_study_makes_no_files_elsewhere(tmp_path):
    """Files of strangers: a callback or a handler of logging that writes where it is told to."""
    there = tmp_path / "there"
    for override in (
        f"+hydra.callbacks.x={{_target_: logging.FileHandler, filename: {there}}}",
        f"+hydra.job_logging.handlers.x={{class: logging.FileHandler, filename: {there}}}",
        f"+hydra.job_logging.handlers.x={{(): logging.FileHandler, filename: {there}}}",
        f"+hydra.hydra_logging.handlers.x={{class: logging.FileHandler, filename: {there}}}",
    ):
        for arguments in ((), ("-m", "seed=1,2")):
            code, _, err = run(*arguments, *ONE, f"results={tmp_path}", override)
            assert code == 2 and len(err.splitlines()) == 1, err
            assert not there.exists()
