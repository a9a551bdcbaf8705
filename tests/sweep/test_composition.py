"""Configs from the cache are those that Hydra composes, and the cache is never stale."""

import shutil
from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from bepo.core.errors import UserError
from bepo.runs.compose import register_configs, to_config
from bepo.runs.config import PAPER_TIERS
from bepo.sweep import composition, studies
from bepo.sweep.composition import compose_with_hydra, composed
from bepo.sweep.studies import EXPERIMENTS, Cell, compose_cells, compose_study, study_names

pytestmark = pytest.mark.slow  # Hydra composes many cells

register_configs()
OF_TINY = tuple(
    """
    warm_start blocks blocks_ablations frontier crbc_depth loss_axes whole_methods state_deviation critic_lead
    next next_groups reproduce
    """.split()
)  # seeds of weights and warm starts, which only they have
TIER_OF = {"prompting_closed": "paper", "desktop": "desktop", "desktop_alfworld": "desktop"}
TIER_OF |= dict.fromkeys(OF_TINY, "laptop")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and ``cache.calls``, the configs that Hydra has composed."""
    composition._sources.cache_clear()
    monkeypatch.setenv("BEPO_CACHE", str(tmp_path / "cache"))
    calls = []

    def counted(*args):
        calls.append(args)
        return compose_with_hydra(*args)

    monkeypatch.setattr(composition, "compose_with_hydra", counted)
    yield calls
    composition._sources.cache_clear()


def same(config, expected):
    """Equal in every value, type, interpolation and flag that a user of a config can see."""
    plain = [OmegaConf.to_container(c, resolve=False, enum_to_str=True) for c in (config, expected)]
    assert plain[0] == plain[1]
    assert OmegaConf.is_struct(config) == OmegaConf.is_struct(expected)
    assert {name: OmegaConf.get_type(config, name) for name in config} == {
        name: OmegaConf.get_type(expected, name) for name in expected
    }


@pytest.mark.parametrize("number, name", list(enumerate(study_names()))[::4])
def test_studies_are_those_of_hydra(number, name, cache):
    overrides = [f"tier={TIER_OF.get(name, PAPER_TIERS[number % 3])}", "updates=7"]
    for _ in range(2):
        study = compose_study(name, overrides)
    assert len(cache) == 1
    same(study.config, compose_with_hydra(EXPERIMENTS, name, overrides, hydra=True))


@pytest.mark.long
@pytest.mark.parametrize("number, name", enumerate(name for name in study_names() if not name.startswith("tune_")))
def test_cells_are_those_of_hydra(number, name, cache):
    tier = TIER_OF.get(name, PAPER_TIERS[number % 3])
    cells = compose_study(name, [f"tier={tier}", "results=elsewhere"]).cells()
    cell = cells[number % len(cells)]
    expected = replace(to_config(compose_with_hydra(EXPERIMENTS, name, cell.overrides)), progress=False)
    cache.clear()
    for _ in range(2):
        (config,) = compose_cells([cell])
        assert config == expected
    assert len(cache) <= 2  # without its seed and, if another setting is made of the seed, with it


def test_settings_that_are_made_of_the_seed_differ_by_cell(tmp_path, monkeypatch):
    text = (EXPERIMENTS / "main_sokoban_text.yaml").read_text(encoding="utf-8")
    text = text.replace("main_sokoban_text", "own_starts") + "\npolicy: {warm_start: {seed: '${seed}'}}\n"
    (tmp_path / "own_starts.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(studies, "EXPERIMENTS", tmp_path)
    planned = compose_study("own_starts", ["tier=laptop", "credit=grpo,rloo", "seed=3,5"])
    for cell, config in planned.configured:
        expected = to_config(compose_with_hydra(tmp_path, "own_starts", cell.overrides))
        assert config == replace(expected, progress=False)
    made = [(config.seed, config.policy.warm_start.seed) for _, config in planned.configured]
    assert sorted(made) == [(3, 3), (3, 3), (5, 5), (5, 5)]


def test_hydras_own_overrides_stop_no_cell():
    (config,) = compose_cells([Cell("tune_gated_bepo", ["env=sokoban", "hydra.sweeper.n_trials=3", "seed=2"], [])])
    assert (config.env.name, config.seed) == ("sokoban", 2)


@pytest.mark.parametrize(
    "override, compositions",  # of two times; where the value of a field is wrong, the presets alone are composed too
    [
        ("credit=grop", 2),
        ("credit.gama=1", 3),
        ("training.epochs=many", 3),
        ("modle=small", 2),
        ("hydra.sweper.n=1", 2),
        ("~nothing", 2),
    ],
)
def test_a_wrong_override_is_one_line_every_time(override, compositions, cache):
    for _ in range(2):
        with pytest.raises(UserError) as error:
            compose_study("main_sokoban", [override])
        assert override.split("=")[0].split(".")[-1].lstrip("~") in str(error.value) and "\n" not in str(error.value)
    assert len(cache) == compositions


def files(tmp_path):
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_changed_file_is_composed_anew(tmp_path, cache):
    folder = tmp_path / "experiments"
    shutil.copytree(EXPERIMENTS, folder)
    assert composed(folder, "main_sokoban", ["tier=smoke"]).updates == 4
    path = folder / "main_sokoban.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "\nupdates: 9\n", encoding="utf-8")
    composition._sources.cache_clear()  # as in another process
    assert composed(folder, "main_sokoban", ["tier=smoke"]).updates == 9
    assert len(cache) == len(files(tmp_path)) == 2


def test_what_is_composed_while_a_file_changes_is_not_kept(tmp_path, cache):
    folder = tmp_path / "experiments"
    shutil.copytree(EXPERIMENTS, folder)
    composition._sources(folder)
    (folder / "new.yaml").write_text("", encoding="utf-8")
    composed(folder, "main_sokoban", [])
    assert len(cache) == 1 and not files(tmp_path)


def test_a_damaged_file_is_composed_anew(tmp_path, cache):
    expected = composed(EXPERIMENTS, "main_sokoban", [])
    (path,) = files(tmp_path)
    for damage in (b"", path.read_bytes()[:-1], path.read_bytes().replace(b"sokoban", b"sokobam")):
        path.write_bytes(damage)
        same(composed(EXPERIMENTS, "main_sokoban", []), expected)
    assert len(cache) == 4


@pytest.mark.parametrize("why", ["others can write it", "it cannot be made"])
def test_a_cache_that_cannot_be_trusted_or_made_is_not_used(tmp_path, cache, why):
    if why == "it cannot be made":
        (tmp_path / "cache").write_text("", encoding="utf-8")
    else:
        (tmp_path / "cache" / "configs").mkdir(parents=True)
        (tmp_path / "cache" / "configs").chmod(0o777)
    for _ in range(2):
        composed(EXPERIMENTS, "main_sokoban", [])
    assert len(cache) == 2


def test_a_config_with_files_from_elsewhere_is_not_kept(tmp_path, cache):
    for _ in range(2):
        composed(EXPERIMENTS, "main_sokoban", [f"hydra.searchpath=[file://{composition.CONF}]"])
    assert len(cache) == 2 and not files(tmp_path)


def test_a_composed_config_is_nobody_elses():
    for _ in range(2):
        config = composed(EXPERIMENTS, "main_sokoban", ["tier=smoke"])
        assert (config.training.epochs, config.env.dim) == (1, 6)
        config.training.epochs = config.env.dim = 99
