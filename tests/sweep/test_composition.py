"""Configs are composed as Hydra composes them, which is the reference."""

from dataclasses import replace

import pytest
from omegaconf import OmegaConf, open_dict

from bepo.core.errors import UserError
from bepo.runs.compose import register_configs, to_config
from bepo.runs.config import TIERS
from bepo.sweep import studies
from bepo.sweep.studies import Cell, compose_cells, compose_study, compose_with_hydra, study_names

pytestmark = pytest.mark.slow  # Hydra composes many cells

register_configs()
ONLY_PAPER = ("prompting_closed",)  # closed models have nothing that a tier with tiny models could set


@pytest.fixture
def without_hydra(monkeypatch):
    """Fail where Hydra itself would be asked."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"Hydra composes {args}")

    monkeypatch.setattr(studies, "compose_with_hydra", refuse)


def same(config, expected):
    """Equal in every value, type, interpolation and flag that a user of a config can see."""
    plain = [OmegaConf.to_container(c, resolve=False, enum_to_str=True) for c in (config, expected)]
    assert plain[0] == plain[1]
    assert OmegaConf.is_struct(config) == OmegaConf.is_struct(expected)
    assert {name: OmegaConf.get_type(config, name) for name in config} == {
        name: OmegaConf.get_type(expected, name) for name in expected
    }


@pytest.mark.parametrize("number, name", enumerate(study_names()))
def test_studies_are_those_of_hydra(number, name, without_hydra):
    """With Hydra's own part, whose ``defaults`` are used up; what it says of the running program is left out."""
    overrides = [f"tier={TIERS[number % 3]}", "updates=7"]
    study, expected = compose_study(name, overrides), compose_with_hydra(name, overrides, hydra=True)
    for part in ("sweeper", "launcher"):
        ours, theirs = (OmegaConf.to_container(c.hydra[part], resolve=False) for c in (study.config, expected))
        ours.pop("defaults", None)
        assert ours == theirs
    with open_dict(expected):
        expected.hydra = study.config.hydra
    same(study.config, expected)


@pytest.mark.parametrize("number, name", enumerate(name for name in study_names() if not name.startswith("tune_")))
def test_cells_are_those_of_hydra(number, name, without_hydra):
    tier = "paper" if name in ONLY_PAPER else TIERS[number % 3]
    cells = compose_study(name, [f"tier={tier}", "results=elsewhere"]).cells()
    cell = cells[number % len(cells)]
    composed, expected = studies._compose(name, cell.overrides), compose_with_hydra(name, cell.overrides)
    same(composed, expected)
    (config,) = compose_cells([cell])
    assert config == replace(to_config(expected), progress=False)


def test_settings_that_are_made_of_the_seed_differ_by_cell(tmp_path, monkeypatch):
    text = (
        (studies.EXPERIMENTS / "main_sokoban_text.yaml")
        .read_text(encoding="utf-8")
        .replace("main_sokoban_text", "own_starts")
    )
    (tmp_path / "own_starts.yaml").write_text(text + "\npolicy: {warm_start: {seed: '${seed}'}}\n", encoding="utf-8")
    monkeypatch.setattr(studies, "EXPERIMENTS", tmp_path)
    planned = compose_study("own_starts", ["tier=laptop", "credit=grpo,rloo", "seed=3,5"])
    for cell, config in planned.configured:
        assert config == replace(to_config(compose_with_hydra("own_starts", cell.overrides)), progress=False)
    made = [(config.seed, config.policy.warm_start.seed) for _, config in planned.configured]
    assert sorted(made) == [(3, 3), (3, 3), (5, 5), (5, 5)]


@pytest.mark.parametrize(
    "overrides",
    [
        ["credit=ppo_ungrouped", "tier=laptop", "policy.warm_start=null", "credit.gamma=0.9"],
        ["credit=graphgpo_official", "backend=verl", "tier=paper", "model=qwen3"],
        [
            "+study.note={a: [1, 2], b: null}",
            "++training.epochs=2",
            "~study.question",
            "evaluation={tasks: 3, seeds: 2}",
        ],
        ["policy=pretrained", "policy.path=/x", "agent.style=full", "env=sokoban", "env.horizon=4"],
        ["model=vl", "env=sokoban", "policy.warm_start.noise=0.1", "loss.ratio=action"],
    ],
)
def test_overrides_are_those_of_hydra(overrides, without_hydra):
    for _ in range(2):  # the second time from what was merged before
        same(studies._compose("main_alfworld", overrides), compose_with_hydra("main_alfworld", overrides))


def test_a_composed_config_is_nobody_elses():
    first = studies._compose("main_sokoban", ["tier=smoke"])
    first.training.epochs, first.env.dim = 99, 99
    assert studies._compose("main_sokoban", ["tier=smoke"]).training.epochs == 1
    assert studies._compose("main_sokoban", ["tier=smoke", "seed=3"]).env.dim == 6


def test_hydras_own_overrides_stop_no_cell(without_hydra):
    (config,) = compose_cells([Cell("tune_gated_bepo", ["env=sokoban", "hydra.sweeper.n_trials=3", "seed=2"], [])])
    assert (config.env.name, config.seed) == ("sokoban", 2)


@pytest.mark.parametrize(
    "override", ["credit=grop", "credit.gama=1", "training.epochs=many", "modle=small", "hydra.sweper.n=1", "~nothing"]
)
def test_what_is_wrong_is_said_by_hydra(override):
    with pytest.raises(UserError) as ours:
        compose_study("main_sokoban", [override])
    with pytest.raises(UserError) as theirs, studies.config_errors("main_sokoban", [override]):
        compose_with_hydra("main_sokoban", [override], hydra=True)
    assert str(ours.value) == str(theirs.value) and "\n" not in str(ours.value)


def test_where_hydra_has_changed_inside_it_composes_itself(monkeypatch):
    expected = studies._compose("main_sokoban", ["tier=smoke"])
    monkeypatch.setattr("bepo.sweep.composition.create_defaults_list", lambda: None)
    same(studies._compose("main_sokoban", ["tier=smoke"]), expected)
