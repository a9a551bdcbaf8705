"""Optuna studies on the sweep's workers: several seeds a trial, two processes, a kill, pruning."""

import json
import os
import signal
from multiprocessing import Process
from types import SimpleNamespace

import optuna
import pytest
from omegaconf import OmegaConf
from optuna.trial import TrialState

from analysis.figures.tuning import optuna_studies
from bepo.core.errors import UserError
from bepo.runs import objectives
from bepo.runs.compose import register_configs
from bepo.runs.config import identity_of
from bepo.runs.objectives import values_of
from bepo.store.files import digest
from bepo.store.locks import acquire
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder
from bepo.sweep import studies
from bepo.sweep.__main__ import main
from bepo.sweep.attempt import Attempt, means_so_far
from bepo.sweep.estimate import Throughput
from bepo.sweep.grid import Grid
from bepo.sweep.plan import PlannedRun, plan_cells
from bepo.sweep.pool import Pool, Worker
from bepo.sweep.samplers import seeded
from bepo.sweep.show import View
from bepo.sweep.space import search_space
from bepo.sweep.studies import Cell, compose_study
from bepo.sweep.trials import (
    counted_trials,
    find_study,
    format_status,
    open_study,
    target_of,
    time_estimates,
    unsearched_run,
)
from bepo.sweep.tune import Tuning
from tests.command import SMALLEST, with_rows, writers
from tests.sweep.test_sweep import finish, sweep, wait_for

pytestmark = pytest.mark.slow  # these train


register_configs()
TINY = (*SMALLEST, "updates=4", "checkpoint_every=1", "evaluation.every=2", "env=sokoban", "--jobs", "1")


def stored(results, name):
    return optuna.load_study(study_name=f"{name}.sokoban.smoke", storage=f"sqlite:///{results}/studies.db")


def test_two_processes_share_a_study_and_one_goes_on_with_the_others_trial(tmp_path):
    space = ("training.minibatch_size=choice(32,64)", "training.epochs=1")  # TINY fixes the rest
    command = ("tune_success_and_time", *TINY, *space, "updates=10", "hydra.sweeper.n_trials=2")
    first = sweep(tmp_path, *command)
    (partial,) = wait_for(lambda: with_rows(tmp_path, 2), first)
    (worker,) = writers(partial.parent / ".lock")
    os.kill(worker, signal.SIGSTOP)  # it holds its trial while the second sweep comes up and asks for another
    second = sweep(tmp_path, *command)
    wait_for(lambda: len(list(tmp_path.glob("studies/tune_success_and_time/smoke/trials/*.lock"))) >= 3, second)
    first.kill()
    os.kill(worker, signal.SIGCONT)  # it sees that its sweep is dead
    first.communicate()
    code, out = finish(second)
    assert code == 0 and "2 of 2 trials of 2 seeds (2 complete)" in out, out
    study = stored(tmp_path, "tune_success_and_time")
    assert [t.state for t in counted_trials(study)] == [TrialState.COMPLETE] * 2
    for trial in counted_trials(study):
        runs = [read_run(tmp_path / "runs" / identifier) for identifier in trial.user_attrs["runs"]]
        assert [run.config["seed"] for run in runs] == [0, 1]
        assert trial.values == pytest.approx(values_of(["validation_success", "training_seconds"], runs))
        assert all(run.config["training"]["minibatch_size"] == trial.params["training.minibatch_size"] for run in runs)

    (killed,) = [t for t in study.trials if t.state == TrialState.FAIL]
    (retry,) = [t for t in study.trials if t.user_attrs.get("retries") == killed.number]
    assert retry.params == killed.params and retry.user_attrs["runs"] == killed.user_attrs["runs"]
    assert f"trial {retry.number} (retries trial {killed.number})" in out and "failed" not in out
    assert len(list(tmp_path.glob("runs/*"))) == 4 or len({str(t.params) for t in counted_trials(study)}) == 1
    resumed = read_run(partial.parent)
    assert len(resumed.metadata["sessions"]) == 2 and [r["update"] for r in resumed.metrics()] == list(range(1, 11))


def test_ctrl_c_leaves_a_trial_that_goes_on_from_its_checkpoint(tmp_path):
    command = ("tune_gated_bepo", *TINY, "updates=16", "hydra.sweeper.n_trials=1", "study.seeds=[0]")
    process = sweep(tmp_path, *command)
    wait_for(lambda: with_rows(tmp_path, 3), process)
    process.send_signal(signal.SIGINT)
    code, out = finish(process)
    assert code == 130, out
    code, out = finish(sweep(tmp_path, *command))
    assert code == 0 and "1 of 1 trials of 1 seeds (1 complete)" in out and "trial 1 (retries trial 0)" in out, out
    (path,) = tmp_path.glob("runs/*")  # the same settings
    run = read_run(path)
    assert len(run.metadata["sessions"]) == 2 and [r["update"] for r in run.metrics()] == list(range(1, 17))
    (trial,) = counted_trials(stored(tmp_path, "tune_gated_bepo"))
    passes = [r["eval/validation_success"] for r in run.metrics() if "eval/validation_success" in r]
    assert trial.intermediate_values == dict(enumerate(passes)) and len(passes) == 8


def test_two_processes_share_a_journal(tmp_path):
    """Each makes a trial, at the same time; the figures find the journal in the results folder."""
    space = (
        "training.minibatch_size=choice(32,64)",
        "training.epochs=1",
        "study.seeds=[0]",
        "hydra.sweeper.n_trials=3",
    )
    storage = f"hydra.sweeper.storage=journal:///{tmp_path}/trials.journal"
    both = [sweep(tmp_path, "tune_gated_bepo", *TINY, *space, storage) for _ in range(2)]
    outs = [finish(process) for process in both]
    assert [code for code, _ in outs] == [0, 0], outs
    assert all("3 of 3 trials of 1 seeds (3 complete)" in out for _, out in outs), outs
    (study,) = optuna_studies(tmp_path).values()
    assert [trial.number for trial in study.trials] == [0, 1, 2]
    assert not (tmp_path / "studies.db").exists()


def test_abandoned_trials_are_queued_once(tmp_path):
    """Another process holds trial 0, trial 1 was abandoned, and trial 2 too, but it is queued already."""
    overrides = [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=3"]
    planned = compose_study("tune_gated_bepo", overrides)
    view = View(Throughput(tmp_path), 1, 6)
    tuning = Tuning(planned, Pool(1), view)
    trials = [tuning.study.ask(tuning.space) for _ in range(3)]
    held = acquire(tuning.folder / f"{tuning.study.study_name}.0.lock")
    tuning.study.enqueue_trial(trials[2].params, user_attrs={"retries": 2})
    attempts = [tuning._next_attempt() for _ in range(3)]
    assert attempts[2] is None
    assert [a.trial.user_attrs["retries"] for a in attempts[:2]] == [2, 1]
    assert [a.trial.params for a in attempts[:2]] == [trials[2].params, trials[1].params]
    running = TrialState.RUNNING
    assert [t.state for t in tuning.study.trials] == [running, TrialState.FAIL, TrialState.FAIL, running, running]
    assert "3 of 3 trials of 2 seeds (3 partial)" in format_status(planned, tuning.study)

    other = Tuning(planned, Pool(1), view)
    assert other._next_attempt() is None  # all three are at work
    held.release()
    assert other._next_attempt().trial.params == trials[0].params


def test_the_workers_of_a_complete_trial_end_by_themselves(tmp_path, monkeypatch):
    """Their runs are complete before W&B has them; to be interrupted then would leave them there as failed."""
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=1"])
    tuning = Tuning(planned, Pool(1), View(Throughput(tmp_path), 1, 2))
    attempt = tuning._next_attempt()
    tuning.attempts.append(attempt)
    worker = Worker(attempt.runs[1], Process())
    tuning.pool.workers.append(worker)
    monkeypatch.setattr(Attempt, "is_complete", True)
    monkeypatch.setattr(Attempt, "values", lambda self, objectives: [0.5])
    tuning._update(attempt)
    assert worker.stop_requests == 0 and tuning.study.trials[0].state == TrialState.RUNNING
    tuning.pool.workers.clear()
    tuning._update(attempt)
    assert tuning.study.trials[0].values == [0.5] and not tuning.attempts


def test_a_worker_that_is_killed_after_its_run_was_complete_has_completed_it(tmp_path, monkeypatch):
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=1"])
    view, shown = View(Throughput(tmp_path), 1, 2), []
    tuning = Tuning(planned, Pool(1), view)
    attempt = tuning._next_attempt()
    tuning.attempts.append(attempt)
    grid = Grid(attempt.runs, Pool(1), view)
    monkeypatch.setattr(PlannedRun, "progress", lambda run: SimpleNamespace(status="complete"))
    monkeypatch.setattr(view, "completed", shown.append)
    killed = Worker(attempt.runs[0], SimpleNamespace(exitcode=-signal.SIGKILL))
    for sweep_ in (tuning, grid):
        sweep_._ended(killed)
    assert shown == [killed, killed] and not attempt.failure and not grid.outcome.failed


def test_trials_whose_runs_are_complete_end_without_a_worker(tmp_path, monkeypatch):
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=2"])
    tuning = Tuning(planned, Pool(1), View(Throughput(tmp_path), 1, 2))
    monkeypatch.setattr(PlannedRun, "progress", lambda run, hashed=True: SimpleNamespace(status="complete", updates=1))
    monkeypatch.setattr("bepo.sweep.attempt.Attempt.values", lambda attempt, objectives: [0.5])
    monkeypatch.setattr("bepo.sweep.attempt.Attempt.report", lambda attempt, metric: False)
    assert not tuning.work()
    assert [trial.values for trial in tuning.study.trials] == [[0.5], [0.5]] and not tuning.attempts
    assert tuning.view.n_complete == 2 * len(planned.seeds)  # they count, though no worker trained them


def test_trials_that_share_a_run_end_though_it_is_busy(tmp_path, monkeypatch):
    """Three trials of equal settings, whose run another process holds: each gets its run back when that one is gone."""
    fixed = [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=3", "study.seeds=[0]"]
    planned = compose_study("tune_gated_bepo", fixed)
    view = View(Throughput(tmp_path), 1, 3)
    tuning = Tuning(planned, Pool(3), view)
    first = tuning._next_attempt()
    for _ in range(2):
        tuning.study.enqueue_trial(first.trial.params)
    for attempt in (first, tuning._next_attempt(), tuning._next_attempt()):
        tuning.attempts.append(attempt)
        tuning.pending += attempt.runs
    assert len({run.id for run in tuning.pending}) == 1 and len(tuning.pending) == 3
    with RunFolder(tmp_path, tuning.pending[0].id).locked():
        tuning._fill()
        assert not tuning.pending and len(tuning.busy) == 3
    tuning.busy = [(run, 0.0) for run, _ in tuning.busy]
    monkeypatch.setattr(tuning, "next_run", lambda: None)
    tuning._fill()
    assert len(tuning.pending) == 3 and not tuning.busy


def test_the_pruner_sees_the_mean_of_the_seeds_so_far(tmp_path):
    settings = [f"results={tmp_path}", *SMALLEST, "updates=4", "evaluation.every=2", "env=sokoban"]
    runs = plan_cells([Cell("main_sokoban", [*settings, f"seed={seed}"], []) for seed in range(3)])

    def note(run, update, value):
        with run.folder.locked():
            run.folder.append("metrics", *({"update": n, "train/return": 10.0 * n} for n in (update - 1, update)))
            run.folder.append("metrics", {"update": update, "eval/validation_success": value})

    def seen(metric="eval/validation_success"):
        return means_so_far(runs, metric)

    note(runs[1], 2, 0.75)
    assert seen() == []
    note(runs[0], 2, 0.5)
    assert seen() == [0.5] and seen("train/return") == [10, 20]
    note(runs[0], 4, 0.25)
    assert seen() == [0.5, 0.25, (0.25 + 0.75) / 2]
    note(runs[1], 4, 1.0)
    note(runs[2], 2, 0.5)
    assert seen() == pytest.approx([0.5, 0.25, 0.5, (0.25 + 1) / 2, (0.25 + 1 + 0.5) / 3])
    assert seen("train/return")[:5] == [10, 20, 30, 40, (40 + 10) / 2]


def test_a_pruner_sees_the_metric_of_the_objective(tmp_path, capsys):
    assert objectives.metric_for_pruner("validation_success") == "eval/validation_success"
    assert objectives.metric_for_pruner("train/return") == "train/return"
    overrides = ["study.objectives=[training_seconds]", "hydra.sweeper.direction=minimize", f"results={tmp_path}"]
    assert main(["tune_gated_bepo", "--dry-run", *overrides]) == 2
    assert "study.pruner: the objective training_seconds is known only at the end" in capsys.readouterr().err


def test_a_hopeless_trial_stops_early_and_keeps_what_it_has(tmp_path):
    pruner = ("~study.pruner", "+study.pruner={_target_: optuna.pruners.ThresholdPruner, lower: 2.0}", "updates=400")
    code, out = finish(
        sweep(tmp_path, "tune_gated_bepo", *TINY, *pruner, "hydra.sweeper.n_trials=1", "study.seeds=[0]")
    )
    assert code == 0 and "trial 0: pruned" in out, out
    (trial,) = stored(tmp_path, "tune_gated_bepo").trials
    assert trial.state == TrialState.PRUNED and trial.intermediate_values
    (path,) = tmp_path.glob("runs/*")
    folder = RunFolder(tmp_path, path.name)
    assert folder.progress().status == "partial" and folder.checkpoints()[0][0] == folder.progress().updates < 400


def test_settings_that_contradict_each_other_are_pruned(tmp_path):
    """credit.solver=exact needs the mean backup; credit.backup=max is fixed."""
    space = ("credit.mixing=dynamic", "credit.backup=max", "credit.solver=choice(exact,iterate)", "study.seeds=[0]")
    trials = ("hydra.sweeper.n_trials=5", "hydra.sweeper.sampler.seed=0")
    code, out = finish(sweep(tmp_path, "tune_every_axis", *TINY, *space, *trials))
    assert code == 0 and "needs credit.backup=mean, not 'max'" in out and "Traceback" not in out, out
    trials = stored(tmp_path, "tune_every_axis").trials
    assert len(trials) == 5
    for trial in trials:
        valid = trial.params["credit.solver"] == "iterate"
        assert trial.state == (TrialState.COMPLETE if valid else TrialState.PRUNED)
        assert ("runs" in trial.user_attrs) == valid != ("refused" in trial.user_attrs)
    assert {trial.state for trial in trials} == {TrialState.COMPLETE, TrialState.PRUNED}


def test_a_study_of_which_no_trial_can_be_trained_has_failed(tmp_path, capfd):
    """One end of the interval is allowed, so the study is begun; hardly a value inside of it is."""
    space = ("credit.gamma=interval(0.999999,2)", "hydra.sweeper.n_trials=2", "hydra.sweeper.sampler.seed=0")
    code = main(["tune_gated_bepo", *TINY, *space, f"results={tmp_path}"])
    out = "".join(capfd.readouterr())
    assert code == 1 and "trial 0: pruned, credit.gamma=1." in out, out
    assert "FAILED  no trial could be trained; the last error: credit.gamma=1." in out, out


def test_a_retried_trial_has_the_conditional_settings_of_the_first(tmp_path):
    seeded = "hydra.sweeper.sampler.seed=0"
    planned = compose_study("tune_every_axis", [f"results={tmp_path}", "env=sokoban", seeded])
    tuning = Tuning(planned, Pool(1), View(Throughput(tmp_path), 1, 6))
    begun = [tuning._next_attempt() for _ in range(6)]  # kept: an attempt that is collected gives up its lock
    first = max(begun, key=lambda attempt: len(attempt.trial.params))
    assert len(first.trial.params) > 5
    first.lock.release()  # abandoned
    retry = tuning._next_attempt()
    assert retry.trial.user_attrs["retries"] == first.trial.number and retry.trial.params == first.trial.params
    assert [run.id for run in retry.runs] == [run.id for run in first.runs]


def test_a_study_without_objectives_is_no_optuna_study():
    with pytest.raises(UserError, match=r"an Optuna study needs .*study.objectives"):
        compose_study("main_sokoban", ["hydra/sweeper=optuna"])


def test_a_study_does_not_mix_settings(tmp_path):
    def load(*overrides):
        planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", *overrides])
        return search_space(planned.sweep)[0], open_study(planned)

    space, study = load()
    assert len(space) == 7 and study.direction.name == "MAXIMIZE"
    assert isinstance(study.sampler, optuna.samplers.TPESampler)
    assert "credit.n_min" not in load("credit.n_min=2", "hydra.sweeper.study_name=other")[0]
    with pytest.raises(UserError, match="made with other settings"):
        load("updates=7")
    with pytest.raises(UserError, match=r"unknown objective 'speed'; choices: .*training_seconds, validation_success"):
        load("study.objectives=[speed]")
    for direction in ("up", "minimize", "[maximize,minimize]"):
        with pytest.raises(UserError) as error:
            load(f"hydra.sweeper.direction={direction}")
        assert f"direction={direction}: the objective is validation success; choices: maximize" in str(error.value)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("direction: maximize", "", "hydra.sweeper.direction=minimize: the objective is validation success"),
        ("seeds: [0, 1]", "seeds: 2", "the lists study.objectives and study.seeds"),
        ("objectives: [validation_success]", "objectives: validation_success", "the lists study.objectives"),
        ("objectives: [validation_success]", "objectives: []", "study.objectives=[]: must be a list"),
        ("seeds: [0, 1]", "seeds: [0, 0]", "study.seeds=[0, 0]: must be a list"),
    ],
)
def test_a_file_that_says_nothing_sensible_is_one_line(tmp_path, monkeypatch, capsys, old, new, message):
    text = (studies.EXPERIMENTS / "tune_gated_bepo.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "tune_gated_bepo.yaml").write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(studies, "EXPERIMENTS", tmp_path)
    assert main(["tune_gated_bepo", "--dry-run", f"results={tmp_path}"]) != 0
    printed = capsys.readouterr().err
    assert message in printed and len(printed.strip().splitlines()) == 1


def test_a_run_with_the_default_settings_makes_no_trial_cheaper(tmp_path):
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban"])
    before = time_estimates(planned, None, Throughput(tmp_path))
    default = unsearched_run(planned)
    with default.folder.locked():
        default.folder.start({}, {"started": "now"})
        default.folder.append("metrics", *({"update": n + 1} for n in range(default.config.updates)))
    assert default.progress().updates == default.config.updates
    assert time_estimates(planned, None, Throughput(tmp_path)) == before and before[0].seconds > 0


def test_the_status_of_a_study_and_failed_trials_are_replaced(tmp_path):
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban", "hydra.sweeper.n_trials=3"])
    assert find_study(planned) is None and not list(tmp_path.iterdir())  # looking makes nothing
    assert format_status(planned, None) == "tune_gated_bepo.sokoban.smoke: 0 of 3 trials of 2 seeds"
    assert len(time_estimates(planned, None, Throughput(tmp_path))) == 6
    study = open_study(planned)
    for state, value in ((TrialState.COMPLETE, 0.5), (TrialState.COMPLETE, 0.5), (TrialState.FAIL, None)):
        study.tell(study.ask(), value, state=state)
    study.ask()
    study = find_study(planned)
    text = format_status(planned, study)
    assert (
        "3 of 3 trials of 2 seeds (2 complete, 1 partial, 1 failed)\n  best: validation_success 0.500, trial 0" in text
    )
    assert target_of(planned, study) == 4  # one more than were asked for: two are over, one is at work, one failed
    assert len(time_estimates(planned, study, Throughput(tmp_path))) == 2
    (tmp_path / "studies.db").write_bytes(b"not a database")
    with pytest.raises(UserError, match=r"studies\.db: cannot be opened"):
        find_study(planned)


def test_a_seeded_study_that_goes_on_proposes_other_settings(tmp_path):
    """What is proposed depends on the seed and on the number of trials, and not on how often the study went on."""

    def proposals(folder, *starts):
        found = []
        for trials in starts:
            seeded = ("hydra.sweeper.sampler.seed=1", f"hydra.sweeper.n_trials={trials}")
            planned = compose_study("tune_gated_bepo", [f"results={folder}", "env=sokoban", *seeded])
            tuning = Tuning(planned, Pool(1), View(Throughput(folder), 1, trials))
            while attempt := tuning._next_attempt():
                tuning.study.tell(attempt.trial, [0.5])
                found.append(attempt.trial.params)
        return found

    in_parts, at_once = proposals(tmp_path / "parts", 1, 2, 3), proposals(tmp_path / "whole", 3)
    assert in_parts == at_once and len({str(params) for params in in_parts}) == 3


def test_a_sampler_that_notes_its_place_keeps_its_seed():
    sampler = OmegaConf.create({"_target_": "optuna.samplers.QMCSampler", "seed": 3})
    assert seeded(sampler, 7).seed == 3
    sampler._target_ = "optuna.samplers.RandomSampler"
    assert seeded(sampler, 7).seed not in (3, seeded(sampler, 8).seed)
    sampler.seed = None
    assert seeded(sampler, 7).seed is None


@pytest.mark.parametrize("folder", ["q?x=1", "a%20b", "a b#c", "ü{x}", "100%"])
def test_trials_are_in_the_results_folder_whatever_its_name(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    planned = compose_study("tune_gated_bepo", [f"results='{folder}'", "env=sokoban"])
    assert planned.config.results == folder and find_study(planned) is None
    study = open_study(planned)
    study.tell(study.ask(), 0.5)
    assert [path.name for path in tmp_path.iterdir()] == [folder]
    assert (tmp_path / folder / "studies.db").is_file()
    assert len(find_study(planned).trials) == 1 and len(optuna_studies(tmp_path / folder)) == 1


@pytest.fixture(scope="module")
def of_all_changes(tmp_path_factory):
    """A results folder, whose database takes a second to make, for several studies."""
    return tmp_path_factory.mktemp("changes")


@pytest.mark.parametrize(
    "before, after, words",
    [
        ("credit.gae_lambda=interval(0.05,50)", "credit.gae_lambda=interval(10,20)",
         "credit.gae_lambda was interval(0.05, 50.0) and is interval(10.0, 20.0)"),
        ("credit.eta_min=interval(0.1,1)", "credit.eta_min=tag(log,interval(0.1,1))",
         "credit.eta_min was interval(0.1, 1.0) and is tag(log, interval(0.1, 1.0))"),
        ("credit.iterations=choice(1,2)", "credit.iterations=choice(1,3)",
         "credit.iterations was choice(1, 2) and is choice(1, 3)"),
        ("credit.b_min=range(1,4)", "credit.b_min=2", "credit.b_min was interval(1, 3) and is 2"),
        ("credit.b_min=2", "credit.b_min=range(1,4)", "credit.b_min was 2 and is interval(1, 3)"),
        ("updates=3", "updates=7", "updates was 3 and is 7"),
        ("study.seeds=[0]", "study.seeds=[0,1]", "study.seeds was [0] and is [0, 1]"),
    ],
)  # fmt: skip
def test_a_study_that_changed_is_refused_by_parameter(of_all_changes, before, after, words):
    settings = [f"results={of_all_changes}", "env=sokoban", f"hydra.sweeper.study_name={digest(before, 6)}"]

    def load(*overrides):
        planned = compose_study("tune_gated_bepo", [*settings, *overrides])
        study = open_study(planned)
        study.ask(search_space(planned.sweep)[0])
        return planned

    load(before)
    changed = compose_study("tune_gated_bepo", [*settings, after])
    for look in (find_study, open_study):
        with pytest.raises(UserError) as error:
            look(changed)
        assert words in str(error.value) and "hydra.sweeper.study_name" in str(error.value)
    assert find_study(load(before)) is not None  # it goes on


def test_a_study_is_joined_while_its_first_trial_is_asked_for(tmp_path):
    """Optuna stores a trial's settings one by one; another process may see, or a kill may leave, the first alone."""
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban"])
    study, space = open_study(planned), search_space(planned.sweep)[0]
    assert len(space) > 1
    trial = study.ask(dict([*space.items()][:1]))
    assert find_study(planned) is not None
    study.tell(trial, state=TrialState.FAIL)
    assert find_study(planned) is not None and open_study(planned).trials[0].params == trial.params


def test_a_condition_that_changed_is_refused(tmp_path):
    planned = compose_study("tune_every_axis", [f"results={tmp_path}", "env=sokoban"])
    open_study(planned).ask(search_space(planned.sweep)[0])
    planned.config.study.conditional["credit.backup"].unless["credit.iterations"] = 1
    with pytest.raises(UserError, match=r"credit.backup.unless.credit.iterations was 0 and is 1"):
        find_study(planned)


def test_a_study_from_before_its_settings_were_stored_by_name_goes_on(tmp_path):
    planned = compose_study("tune_gated_bepo", [f"results={tmp_path}", "env=sokoban"])
    parts = [identity_of(unsearched_run(planned).config), planned.objectives, planned.seeds]
    study = optuna.create_study(
        study_name="tune_gated_bepo.sokoban.smoke", storage=f"sqlite:///{tmp_path}/studies.db", direction="maximize"
    )
    study.set_user_attr("settings", digest(json.dumps(parts, sort_keys=True, default=str), 12))
    assert find_study(planned) is not None
    study.set_user_attr("settings", "0" * 12)
    with pytest.raises(UserError, match="other fixed settings"):
        find_study(planned)


def test_an_objective_is_any_logged_metric_of_training_with_the_direction_of_the_sweeper():
    rows = [{"update": n, "train/return": 0.5 * n, "train/loss": None} for n in (1, 2, 3)]
    run = SimpleNamespace(metrics=lambda: rows)
    assert objectives.values_of(["train/return"], [run, run]) == [1.5]
    for direction in ("maximize", "minimize"):
        sweeper = OmegaConf.create({"direction": [direction, "minimize"]})
        names = ["train/return", "training_seconds"]
        assert objectives.checked_directions(names, sweeper) == [direction, "minimize"]
    with pytest.raises(UserError, match=r"hydra.sweeper.direction=minimize: .* choices: .minimize,maximize"):
        objectives.checked_directions(
            ["train/return", "validation_success"], OmegaConf.create({"direction": "minimize"})
        )
    with pytest.raises(UserError, match=r"unknown metric of study.objectives 'train/retrn'.*did you mean train/return"):
        objectives.values_of(["train/retrn"], [run])
    with pytest.raises(UserError, match="eval/test_success is of test tasks"):
        objectives.checked_objectives(["eval/test_success"])
