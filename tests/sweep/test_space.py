"""Sweeps span what Hydra's own sweepers make of them; their private functions are the reference."""

import optuna
import pytest
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra_plugins.hydra_optuna_sweeper._impl import create_params_from_overrides
from omegaconf import OmegaConf
from optuna.distributions import IntDistribution

from bepo.core.errors import UserError
from bepo.credit.gated_bepo import GatedBEPO
from bepo.runs.compose import register_configs
from bepo.sweep.space import conditional_space, grid, parse, search_space, suggest, suggest_conditional, values_of
from bepo.sweep.studies import compose_study, study_names

register_configs()
TUNINGS = [name for name in study_names() if name.startswith("tune_")]
GRIDS = [name for name in study_names() if not name.startswith("tune_")]
GRIDS[::2] = [pytest.param(name, marks=pytest.mark.long) for name in GRIDS[::2]]  # Hydra takes its time for each
SPACES = [
    ["a=choice(1,2.5,true,x,'with, comma',\"it's\")"],
    ["a=1,2,3", "b=tag(log,choice(1,10))", "c=[1,2],[3]", "d={k:1},{k:2}"],
    ["a=range(5)", "b=range(1,10,3)", "c=range(10,1,-4)", "d=range(3,4)"],
    ["a=range(0,1,0.1)", "b=range(1.5,0,-0.25)", "c=range(0.5,3)", "d=range(0,0.3,step=0.15)"],
    ["a=interval(1,8)", "b=interval(0.5,8)", "c=interval(-1,1.0)"],
    ["a=tag(log,interval(1,64))", "b=tag(log,interval(1e-6,1e-2))", "c=tag(other,interval(0.1,1))"],
    ["a=int(interval(1.0,4.0))", "b=float(range(1,4))", "c=int(range(1.5,4))", "d=sort(3,1,2)"],
    ["a=1,2", "a=3,4", "b=1,2", "b=5", "c=1", "c=1,2", "~d", "~e=3", "+f=1,2", "++g=x", "h@i=1,2", "j="],
]
POINTS = [
    *(space for space in SPACES if "interval" not in str(space)),
    ["a=1,2", "b=x", "a=3,4,5", "b=y,z"],
    [],
]


@pytest.mark.parametrize("name", TUNINGS)
@pytest.mark.parametrize(
    "tier, overrides",
    [("smoke", []), ("laptop", ["credit.n_min=3", "training.epochs=2,3", "~study.question", "seed=7"]), ("paper", [])],
)
def test_studies_have_the_search_space_of_hydras_sweeper(name, tier, overrides):
    sweep = compose_study(name, [f"tier={tier}", *overrides]).sweep
    assert len(sweep) > len(overrides) + 1
    _same_space(sweep)


@pytest.mark.parametrize("sweep", SPACES)
def test_search_spaces_are_those_of_hydras_sweeper(sweep):
    _same_space(sweep)


def _same_space(sweep):
    distributions, fixed, deletions = create_params_from_overrides(sweep)
    space, overrides = search_space(sweep)
    expected = {name: value for name, value in distributions.items() if name not in fixed}
    assert space == expected and list(space) == list(expected)
    assert {n: type(d) for n, d in space.items()} == {n: type(d) for n, d in expected.items()}
    assert overrides == [*(f"{name}={value}" for name, value in fixed.items()), *deletions]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIDS)
def test_studies_have_the_cells_of_hydras_sweeper(name):
    sweep = compose_study(name, ["updates=3"]).sweep
    assert [grid(sweep)] == BasicSweeper.split_arguments(parse(sweep), None)


@pytest.mark.parametrize("sweep", POINTS)
def test_grids_are_those_of_hydras_sweeper(sweep):
    assert [grid(sweep)] == BasicSweeper.split_arguments(parse(sweep), None)


@pytest.mark.parametrize("sweep", ["a=range(3,3)", "a=range(1,3,0)", "a=range(2.0,1.0)", "a=range(0,1,0.0)"])
def test_a_range_without_values_is_named(sweep):
    with pytest.raises(UserError, match="has no values"):
        search_space([sweep])


def chosen(study, overrides=(), seed=0, n_trials=100):
    """What random trials of a study choose, by name without ``credit.``, beside what is fixed."""
    planned = compose_study(study, list(overrides))
    space, fixed = search_space(planned.sweep)
    trials = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    conditional = conditional_space(planned.config)
    for _ in range(n_trials):
        trial = trials.ask(space)
        suggest(trial, conditional, planned.config, values_of(fixed))
        yield {name.removeprefix("credit."): value for name, value in trial.params.items()}


AXES = {
    *("mixing", "step_weight", "gae_lambda", "iterations", "backup", "softmax_temperature", "eta_min"),
    *("gate", "gate_order", "n_min", "b_min", "full_visits", "full_branches"),
}


@pytest.mark.parametrize("tier", ["smoke", "laptop", "paper"])
def test_every_axis_is_searched_and_nothing_that_has_no_effect(tier):
    found = list(chosen("tune_every_axis", [f"tier={tier}", "env=sokoban"]))
    assert {name for settings in found for name in settings} == AXES
    for settings in found:
        GatedBEPO(**settings)  # valid
        mixing, gate = settings["mixing"], settings.get("gate")
        gated = mixing in ("dynamic", "group_skew")
        assert ("step_weight" in settings) == ("gae_lambda" in settings) == (mixing != "outcome_only")
        assert ("backup" in settings) == (settings.get("iterations", 0) > 0)
        assert ("softmax_temperature" in settings) == (settings.get("backup") == "softmax")
        assert (gate is not None) == ("gate_order" in settings) == ("eta_min" in settings) == gated
        assert ("n_min" in settings) == ("b_min" in settings) == (gate == "binary")
        assert ("full_visits" in settings) == (gate in ("count_ramp", "count_and_branch"))
        assert ("full_branches" in settings) == (gate == "count_and_branch")


def test_what_is_fixed_is_not_searched_and_counts_in_conditions():
    found = list(chosen("tune_every_axis", ["credit.gate=count_ramp", "credit.iterations=0", "credit.full_visits=3"]))
    assert {name for settings in found for name in settings} == AXES - {
        *("gate", "iterations", "full_visits", "n_min", "b_min", "full_branches", "backup", "softmax_temperature"),
    }
    assert all(set(s) == {"mixing"} for s in found if s["mixing"] == "outcome_only")
    of_preset = list(chosen("tune_every_axis", ["credit.mixing=dynamic", "credit.gate=binary", "credit.n_min=1,2"]))
    assert all({"n_min", "b_min"} < set(s) and s["n_min"] < 3 for s in of_preset)


def test_hydras_sweeper_is_given_the_same_conditions():
    planned = compose_study("tune_every_axis", ["credit.gate=count_ramp"])
    assert planned.config.hydra.sweeper.custom_search_space == "bepo.sweep.space.suggest_conditional"
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask(search_space(planned.sweep)[0])
        trial.set_user_attr("credit.gate", "count_ramp")
        suggest_conditional(planned.config, trial)
        assert ("credit.full_visits" in trial.params) == (trial.params["credit.mixing"] in ("dynamic", "group_skew"))
        assert not {"credit.gate", "credit.n_min"} & trial.params.keys()


@pytest.mark.parametrize(
    "entry, problem",
    [
        ({"search": "3", "where": {"credit.gate": "binary"}}, "credit.n_min: search=3"),
        ({"search": "1,2", "where": {"credit.gait": "binary"}}, "depends on credit.gait"),
        ({"search": "1,2", "unless": {"credit.x": 1}}, "depends on credit.x"),
        ({"search": "1,2", "where": {"credit.gate": "binary"}}, "depends on credit.gate"),
    ],
)
def test_a_condition_that_cannot_be_is_named(entry, problem):
    conditional = {"credit.n_min": entry, "credit.gate": {"search": "binary,count_ramp"}}
    config = {"credit": {"gate": "binary", "n_min": 2}, "study": {"conditional": conditional}}
    with pytest.raises(UserError, match=problem):
        conditional_space(OmegaConf.create(config))


@pytest.mark.parametrize("name", ["gate_thresholds", "main_webshop", "observation_aliasing"])
def test_any_study_takes_a_number_of_seeds(name):
    """Also one whose file has a single seed; cells that the file has keep their overrides."""
    own, more = ([tuple(sorted(c.overrides)) for c in compose_study(name, o).cells()] for o in ([], ["seeds=8"]))
    seeds = [next(part for part in cell if part.startswith("seed=")) for cell in more]
    assert {seeds.count(f"seed={n}") for n in range(8)} == {len(more) // 8}
    rows = {tuple(part for part in cell if not part.startswith("seed=")) for cell in own}
    assert len(more) == 8 * len(rows) and set(own) <= set(more)


def test_trials_average_that_many_seeds_and_other_numbers_are_refused():
    assert compose_study("tune_gated_bepo", ["seeds=3"]).seeds == [0, 1, 2]
    of_two, of_one = (compose_study("tune_gated_bepo", [f"seed={text}"]) for text in ("3,4", "7"))
    assert (of_two.seeds, of_one.seeds) == ([3, 4], [7]) and not any("seed=" in text for text in of_two.sweep)
    for text in ("0", "x", "1,2", "-1", "1001"):
        with pytest.raises(UserError, match=f"seeds={text}: .*from 1 to 1000"):
            compose_study("main_webshop", [f"seeds={text}"])


@pytest.mark.parametrize(
    "condition, value, holds",
    [
        ("1", "1.0", True), ("1.0", 1, True), ("null", None, True), ("null", "null", True), ("null", 3.0, False),
        ("[1, null]", None, True), ("1", True, False), ("true", "true", True), ("1e-3", "0.001", True),
        ("'1'", 1, True), ("softmax", "softmax", True), ("softmax", "max", False),
    ],
)  # fmt: skip
def test_conditions_compare_what_values_mean(condition, value, holds):
    """``fixed`` are texts of the command line, and a trial's choices are texts where they are null."""
    for part, expected in (("where", holds), ("unless", not holds)):
        entry = {"search": "interval(0, 1)", part: {"a": yaml.safe_load(condition)}}
        config = OmegaConf.create({"study": {"conditional": {"b": entry}}, "a": "x"})
        for fixed in ({"a": value}, {}):
            trial = optuna.trial.FixedTrial({"b": 0.5})
            suggest(trial, conditional_space(config), config, fixed)
            assert ("b" in trial.params) == expected
            config.a = value


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed=range(100000000)"],
        ["seed=shuffle(range(100000000))"],
        ["a=range(1,1e9,1e-9)"],
        ["a=range(200)", "b=range(200)"],
    ],
)
def test_a_grid_of_too_many_cells_is_refused_at_once(overrides):
    with pytest.raises(UserError, match="more than 10000 cells"):
        grid(overrides)


@pytest.mark.parametrize("sweep", ["interval(nan,1)", "interval(0,inf)", "range(1,inf)", "range(0,1,nan)"])
def test_ends_that_are_no_numbers_are_refused(sweep):
    with pytest.raises(UserError, match="finite numbers"):
        search_space([f"a={sweep}"])


def test_a_long_range_is_searched_where_it_need_not_be_listed():
    assert search_space(["a=range(1000000000)"])[0] == {"a": IntDistribution(0, 999_999_999)}
    for sweep in ("range(0,1e9,1e-3)", "shuffle(range(1000000000))"):
        with pytest.raises(UserError, match=r"more than 10000 values; choices: interval"):
            search_space([f"a={sweep}"])
