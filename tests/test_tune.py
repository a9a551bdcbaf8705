"""Optuna studies on the sweep's workers: several seeds a trial, two processes, a kill, pruning."""

import optuna
import pytest
from optuna.trial import TrialState

from bepo import objective, record
from bepo.config import register_configs
from bepo.errors import UserError
from bepo.sweep import plan, trials
from bepo.sweep.estimate import Throughput

from .command import SMALLEST
from .test_sweep import finish, sweep, wait_for

register_configs()
TINY = (*SMALLEST, "updates=4", "checkpoint_every=1", "evaluation.every=2", "env=sokoban", "--jobs", "1")


def stored(results, name):
    return optuna.load_study(study_name=f"{name}.sokoban.smoke", storage=f"sqlite:///{results}/studies.db")


def test_two_processes_share_a_study_and_one_goes_on_with_the_others_trial(tmp_path):
    space = ("training.minibatch=choice(32,64)", "training.epochs=1")  # TINY fixes the rest
    command = ("tune_success_and_time", *TINY, *space, "hydra.sweeper.n_trials=2")
    first = sweep(tmp_path, *command)
    wait_for(lambda: [p for p in tmp_path.glob("runs/*/metrics.jsonl") if p.read_text().count("\n") >= 2], first)
    second = sweep(tmp_path, *command)
    wait_for(lambda: len(list(tmp_path.glob("studies/tune_success_and_time/smoke/trials/*.lock"))) >= 3, second)
    first.kill()
    first.communicate()
    code, out = finish(second)
    assert code == 0 and "2 of 2 trials of 2 seeds (2 complete)" in out, out
    study = stored(tmp_path, "tune_success_and_time")
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 2
    for trial in study.trials:
        found = [record.read(tmp_path / "runs" / identifier) for identifier in trial.user_attrs["runs"]]
        assert [f.config["seed"] for f in found] == [0, 1]
        assert trial.values == pytest.approx(objective.values(["validation_success", "training_seconds"], found))
        assert all(f.config["training"]["minibatch"] == trial.params["training.minibatch"] for f in found)


def test_a_hopeless_trial_stops_early_and_keeps_what_it_has(tmp_path):
    pruner = ("~study.pruner", "+study.pruner={_target_: optuna.pruners.ThresholdPruner, lower: 2.0}", "updates=400")
    code, out = finish(
        sweep(tmp_path, "tune_gated_bepo", *TINY, *pruner, "hydra.sweeper.n_trials=1", "study.seeds=[0]")
    )
    assert code == 0 and "trial 0: pruned" in out, out
    (trial,) = stored(tmp_path, "tune_gated_bepo").trials
    assert trial.state == TrialState.PRUNED and trial.intermediate_values
    (path,) = tmp_path.glob("runs/*")
    folder = record.RunFolder(tmp_path, path.name)
    assert folder.progress().status == "partial" and folder.checkpoint()[0] == folder.progress().updates < 400


def test_a_study_does_not_mix_settings(tmp_path):
    def load(*overrides):
        study = plan.study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", *overrides])
        return trials.space_of(study)[0], trials.load(study)

    space, study = load()
    assert (
        len(space) == 7 and study.direction.name == "MAXIMIZE" and isinstance(study.sampler, optuna.samplers.TPESampler)
    )
    assert "credit.n_min" not in load("credit.n_min=2", "hydra.sweeper.study_name=other")[0]
    with pytest.raises(UserError, match="made with other settings"):
        load("updates=7")
    with pytest.raises(UserError, match="unknown objective 'speed'; choices: training_seconds, validation_success"):
        load("study.objectives=[speed]")


def test_a_study_is_shown_as_it_stands_and_failed_trials_are_replaced(tmp_path):
    study = plan.study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=3"])
    assert trials.stored(study) is None and not list(tmp_path.iterdir())  # looking makes nothing
    assert trials.standing(study, None) == "tune_gated_bepo.sokoban.smoke: 0 of 3 trials of 2 seeds"
    assert len(trials.left(study, None, Throughput(tmp_path))) == 6
    found = trials.load(study)
    for state, value in ((TrialState.COMPLETE, 0.5), (TrialState.COMPLETE, 0.5), (TrialState.FAIL, None)):
        found.tell(found.ask(), value, state=state)
    found.ask()
    found = trials.stored(study)
    shown = trials.standing(study, found)
    assert (
        "3 of 3 trials of 2 seeds (2 complete, 1 partial, 1 failed)\n  best: validation_success 0.500, trial 0" in shown
    )
    assert trials.wanted(study, found) == 4  # one more than were asked for: two are over, one is at work, one failed
    assert len(trials.left(study, found, Throughput(tmp_path))) == 2
    (tmp_path / "studies.db").write_bytes(b"not a database")
    with pytest.raises(UserError, match=r"studies\.db: cannot be read"):
        trials.stored(study)
