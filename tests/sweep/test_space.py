"""Sweeps span what Hydra's own sweepers make of them; their private functions are the reference."""

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra_plugins.hydra_optuna_sweeper._impl import create_params_from_overrides

from bepo.core.errors import UserError
from bepo.runs.compose import register_configs
from bepo.sweep.space import grid, parse, search_space
from bepo.sweep.studies import compose_study, study_names

register_configs()
TUNINGS = [name for name in study_names() if name.startswith("tune_")]
GRIDS = [name for name in study_names() if not name.startswith("tune_")]
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
@pytest.mark.parametrize("tier", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("overrides", [[], ["credit.n_min=3", "training.epochs=2,3", "~study.question", "seed=7"]])
def test_studies_have_the_search_space_of_hydras_sweeper(name, tier, overrides):
    sweep = compose_study(name, [f"tier={tier}", *overrides]).sweep
    assert len(sweep) > 4
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
