"""Between ``ask`` and ``tell`` runs the code of others. A trial that it fails is one line, and the others go on."""

import math
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from bepo.core.errors import UserError
from bepo.runs import objectives
from bepo.runs.compose import register_configs
from bepo.runs.trials_database import best_trials
from bepo.sweep.estimate import Throughput
from bepo.sweep.pool import Pool
from bepo.sweep.show import View
from bepo.sweep.studies import compose_study
from bepo.sweep.trials import find_study, format_status, target_of, time_estimates
from bepo.sweep.tune import Tuning
from tests.command import SMALLEST
from tests.sweep.test_sweep import finish, sweep

register_configs()
FIXED = ("credit.gae_lambda=0.5", "credit.step_weight=1", "credit.eta_min=0.5", "credit.iterations=3")
ONE_CHOICE = (*FIXED, "credit.n_min=2", "training.learning_rate=0.001", "credit.b_min=choice(1,2,3)")


class Run:
    id = "0123456789ab"


@pytest.fixture
def named(monkeypatch):
    """Register an objective that returns or raises a value, and return its name."""

    def register(value):
        def of_run(run):
            if isinstance(value, BaseException):
                raise value
            return value

        monkeypatch.setitem(objectives.OBJECTIVES, "odd", objectives.Objective(of_run, "maximize", None))
        return "odd"

    return register


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, None, "0.5", [0.1, 0.2], np.nan, np.array([1.0]), 1 + 2j], ids=repr
)
def test_a_value_that_is_no_finite_number_is_named(value, named):
    with pytest.raises(UserError, match=r"^objective odd, run 0123456789ab: must be a finite number, not "):
        objectives.values_of([named(value)], [Run()])


@pytest.mark.parametrize("error", [KeyError("x"), ZeroDivisionError(), AssertionError("no"), SystemExit(0)], ids=repr)
def test_an_error_of_an_objective_is_named(error, named):
    with pytest.raises(UserError, match=f"^objective odd, run 0123456789ab: it raised {type(error).__name__}"):
        objectives.values_of([named(error)], [Run()])


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(1), 1, True, 0.5], ids=repr)
def test_numbers_of_all_kinds_are_values(value, named):
    found = objectives.values_of([named(value)], [Run(), Run()])
    assert found == [float(value)] and type(found[0]) is float


def tuning(folder, *overrides, trials=4, sampler=None) -> Tuning:
    seeds = ("study.seeds=[0]", f"hydra.sweeper.n_trials={trials}", f"results={folder}", "env=sokoban")
    planned = compose_study("tune_gated_bepo", [*seeds, *overrides])
    made = Tuning(planned, Pool(1), View(Throughput(folder), 1, trials))
    made.study.sampler = sampler or made.study.sampler
    return made


def states(made: Tuning) -> list[str]:
    return [trial.state.name for trial in made.study.trials]


def test_a_sampler_that_stops_a_study_ends_it(tmp_path):
    made = tuning(tmp_path, *ONE_CHOICE, trials=9, sampler=optuna.samplers.BruteForceSampler())
    while attempt := made._next_attempt():
        made._tell(attempt.trial, TrialState.COMPLETE, [0.5])
    assert sorted(trial.params["credit.b_min"] for trial in made.study.trials) == [1, 2, 3]
    assert "3 of 9 trials of 1 seeds (3 complete); the sampler has no other settings to try" in format_status(
        made.planned, made.study
    )
    assert time_estimates(made.planned, find_study(made.planned), Throughput(tmp_path)) == []  # nothing to do


def test_what_failed_in_a_stopped_study_is_tried_again(tmp_path):
    made = tuning(tmp_path, *ONE_CHOICE, trials=9, sampler=optuna.samplers.BruteForceSampler())
    while attempt := made._next_attempt():
        failed = attempt.trial.params["credit.b_min"] == 2
        made._tell(attempt.trial, TrialState.FAIL if failed else TrialState.COMPLETE, None if failed else [0.5])
    assert len(time_estimates(made.planned, find_study(made.planned), Throughput(tmp_path))) == 1
    again = tuning(tmp_path, *ONE_CHOICE, trials=9, sampler=optuna.samplers.BruteForceSampler())
    attempt = again._next_attempt()
    assert attempt.trial.params["credit.b_min"] == 2
    again._tell(attempt.trial, TrialState.COMPLETE, [0.5])
    assert again._next_attempt() is None and target_of(again.planned, again.study) == 3


class Broken(optuna.samplers.RandomSampler):
    """A sampler whose method fails."""

    def __init__(self, method):
        super().__init__(seed=0)
        setattr(self, method, self._fail)

    def _fail(self, *arguments, **options):
        raise LookupError("no such thing")


@pytest.mark.parametrize("method", ["before_trial", "infer_relative_search_space", "sample_independent"])
def test_a_sampler_that_proposes_nothing_ends_its_search_in_one_line(method, tmp_path):
    made = tuning(tmp_path)
    first = made._next_attempt()
    made.study.sampler = Broken(method)
    assert made._next_attempt() is None and made._next_attempt() is None
    assert made.outcome.failed == [
        "tune_gated_bepo, hydra.sweeper.sampler: Broken proposes no settings, LookupError: no such thing"
    ]
    assert states(made) == ["RUNNING", "FAIL"]
    made._tell(first.trial, TrialState.COMPLETE, [0.5])  # what runs goes on
    first.lock.release()
    again = tuning(tmp_path)  # nor does the failure end the search for ever
    assert again._next_attempt() and states(again) == ["COMPLETE", "FAIL", "RUNNING"]


def test_a_sampler_that_fails_after_a_trial_loses_nothing(tmp_path):
    made = tuning(tmp_path, sampler=Broken("after_trial"))
    made._tell(made._next_attempt().trial, TrialState.COMPLETE, [0.5])
    assert states(made) == ["COMPLETE"] and made.study.best_value == 0.5 and made._next_attempt()


@pytest.fixture(scope="module")
def one_database(tmp_path_factory):
    """A results folder for several studies: its database takes a second to make."""
    return tmp_path_factory.mktemp("trials")


@pytest.mark.parametrize("place", ["suggest", "_attempt", "report", "is_complete", "values"])
@pytest.mark.parametrize("error", [KeyError("odd"), UserError("odd")], ids=repr)
def test_an_error_on_the_way_fails_its_trial_alone(place, error, one_database, monkeypatch):
    def fail(*arguments):
        raise error

    made = tuning(one_database, f"hydra.sweeper.study_name={place}-{type(error).__name__}", trials=2)
    if place == "suggest":
        monkeypatch.setattr("bepo.sweep.tune.suggest", fail)
    elif place == "_attempt":
        monkeypatch.setattr(made, "_attempt", fail)
    else:
        monkeypatch.setattr("bepo.sweep.attempt.Attempt.is_complete", property(lambda self: place == "values"))
        monkeypatch.setattr(f"bepo.sweep.attempt.Attempt.{place}", property(fail) if place == "is_complete" else fail)
    begun = place in ("report", "is_complete", "values")
    while attempt := made._next_attempt():
        assert begun
        made.attempts.append(attempt)
        made._update(attempt)
    refused = isinstance(error, UserError) and not begun
    assert states(made) == ["PRUNED" if refused else "FAIL"] * 2 and not made.attempts
    assert [line.count("odd") for line in made.outcome.failed] == ([] if refused else [1, 1])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), optuna.exceptions.StorageInternalError("x")])
def test_a_storage_that_is_lost_ends_the_search_in_one_line_after_its_workers(error, tmp_path, monkeypatch):
    made = tuning(tmp_path)
    worker = SimpleNamespace(stop_requests=0)
    made.pool.workers, asked = [worker], []

    def fail(*arguments, **options):
        raise error

    def stop(requests):
        asked.append(requests)
        made.pool.workers.clear()

    monkeypatch.setattr(made, "n_elsewhere", fail)
    monkeypatch.setattr(made.pool, "ended", lambda seconds: [])
    monkeypatch.setattr(made.pool, "stop", stop)
    with pytest.raises(UserError, match="its trials cannot be stored: "):
        made.finish()
    assert asked == [1]


def test_an_infinite_value_of_an_older_version_is_not_the_best(tmp_path):
    made = tuning(tmp_path)
    for value in (0.25, math.inf, 0.5, -math.inf):
        made.study.tell(made.study.ask(), value)
    assert [trial.number for trial in best_trials(made.study)] == [2]
    assert "best: validation_success 0.500, trial 2" in format_status(made.planned, made.study)


@pytest.mark.slow
def test_a_trial_without_a_value_fails_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("BEPO_PLUGINS", "tests/sweep/odd_objectives.py")
    few = (*SMALLEST, "updates=1", "evaluation.every=0", "env=sokoban", "study.seeds=[0]", "--jobs", "1")
    command = ("tune_gated_bepo", *few, "~study.pruner", "study.objectives=[fails_first]", "hydra.sweeper.n_trials=2")
    code, out = finish(sweep(tmp_path, *command))
    assert code == 1 and "Traceback" not in out, out
    assert "failed: trial 0: objective fails_first, run " in out and "must be a finite number, not nan" in out, out
    assert "1 of 2 trials of 1 seeds (1 complete, 1 failed)" in out and "best: fails_first " in out, out
