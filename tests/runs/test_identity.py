"""A run id depends on the right fields, and a new neutral field changes no run id."""

import re
from dataclasses import field, fields, make_dataclass, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from analysis.data.rows import METHOD, settings
from analysis.data.sources import Source
from bepo.core.settings import identity, outside_identity, setting
from bepo.envs.sokoban import Sokoban
from bepo.rollouts.task_sets import task_set
from bepo.runs import config as schema
from bepo.runs.compose import register_configs
from bepo.runs.config import PLUGINS, cell_overrides, identity_of
from bepo.store.runs import run_id
from bepo.sweep.studies import compose_study
from tests.stored_runs import write_run

register_configs()
PARTS = (*PLUGINS, "agent", "rollout", "training", "training.critic", "evaluation", "")
CHOSEN = {"env": "sokoban", "credit": "grpo", "loss": "ppo_clip", "policy": "tiny", "backend": "local"}


@pytest.fixture(scope="module")
def config():
    return compose_study("main_sokoban", ["tier=smoke", "backend=local", "model=small"]).configured[0][1]


def with_field(value, default, **options):
    """The same settings with one more field, ``later``."""
    kind = make_dataclass(type(value).__name__, [("later", float, setting(default, **options))], bases=(type(value),))
    return kind(**{item.name: vars(value)[item.name] for item in fields(value)})


def changed(config, part, **options):
    """The config with a field ``later`` in a part of it."""
    if not part:
        return with_field(config, 1.0, **options)
    name, _, rest = part.partition(".")
    return replace(config, **{name: changed(vars(config)[name], rest, **options)})


@pytest.mark.parametrize("part", PARTS)
def test_a_neutral_field_that_is_added_later_leaves_every_id_as_it_is(config, part):
    before = run_id(identity_of(config))
    assert run_id(identity_of(changed(config, part, neutral=True))) == before
    assert run_id(identity_of(changed(config, part))) != before
    assert run_id(identity_of(changed(config, part, identity=False))) == before


def test_another_value_of_a_neutral_field_is_another_run(config):
    later = with_field(config.rollout, 1.0, neutral=True)
    assert identity(later) == identity(config.rollout)
    assert identity(replace(later, later=2.0)) == identity(config.rollout) | {"later": 2.0}


OUTSIDE = {
    "local": "device=cpu threads=2".split(),
    "verl": """
    device=cpu n_gpus=4 nodes=2 tensor_parallel_size=2 micro_batch_tokens=99 env_workers=2 attention=sdpa
    gpu_memory_utilization=0.4 offload=true agent_workers=2 patience=9 verbose=true
    """.split(),
}
EVERYWHERE = ("training.micro_batch_tokens=99", "results=elsewhere", "progress=false", "checkpoint_every=3")


@pytest.mark.parametrize("backend", OUTSIDE)
def test_where_and_how_fast_it_runs_is_no_part_of_a_run(backend):
    def run(*overrides):
        common = ("tier=smoke", "model=small", f"backend={backend}", "credit=grpo", "seed=0")
        (pair,) = compose_study("main_sokoban", [*common, *overrides]).configured
        return pair[1]

    outside = [f"backend.{text}" for text in OUTSIDE[backend]] + list(EVERYWHERE)
    plain, moved = run(), run(*outside)
    assert run_id(identity_of(moved)) == run_id(identity_of(plain))
    assert cell_overrides(moved, [*outside, "credit.gamma=0.9", "seed=0"]) == ["credit.gamma=0.9", "seed=0"]
    noted = outside_identity(moved)  # of which the run's session speaks
    assert noted["training"] == {"micro_batch_tokens": 99} and noted["backend"]["device"] == "cpu"
    assert run_id(identity_of(run("training.epochs=2"))) != run_id(identity_of(plain))


def extended(kind, path, default):
    """A dataclass of settings with one more neutral field at a dotted path."""
    name, _, rest = path.partition(".")
    if rest:
        inner = extended(get_type_hints(kind)[name], rest, default)
        return make_dataclass(kind.__name__, [(name, inner, field(default_factory=inner))], bases=(kind,))
    return make_dataclass(kind.__name__, [(name, float | None, setting(default, neutral=True))], bases=(kind,))


@pytest.fixture
def know_later(monkeypatch):
    """Let this bepo have a neutral field, whose default is 1, in a part of a config."""

    def know(name):
        part, _, rest = name.partition(".")
        if registry := PLUGINS.get(part):
            monkeypatch.setitem(registry._known, CHOSEN[part], extended(registry()[CHOSEN[part]], rest, 1.0))
        else:
            monkeypatch.setattr(schema, "Config", extended(schema.Config, name, 1.0))

    return know


@pytest.mark.parametrize("part", PARTS)
def test_runs_from_before_and_after_a_field_was_added_are_averaged(part, tmp_path, know_later):
    """The older run knows nothing of the field; the newer one has its default, and leaves it out."""
    chosen, name = {f"{p}.name": value for p, value in CHOSEN.items()}, f"{part}.later".lstrip(".")
    know_later(name)
    write_run(tmp_path, "s", {**chosen, "seed": 0}, ((1, 0),), started="2026-01-01")
    write_run(tmp_path, "s", {**chosen, "seed": 1}, ((1, 0),), started="2026-02-01")
    for value in (2.0, None):
        write_run(tmp_path, f"is {value}", {**chosen, "seed": 1, name: value}, ((1, 0),), started="2026-03-01")
    source = Source(tmp_path)
    study = source.study("s", "laptop", METHOD)
    assert len(study.rows["grpo"]) == 2 and not study.skipped
    label = name.removeprefix("credit.")
    assert set(source.study("s", "laptop", settings(name)).rows) == {f"{label}=1.0"}
    assert set(source.study("is 2.0", "laptop", settings(name)).rows) == {f"{label}=2.0"}
    write_run(tmp_path, "s", {**chosen, "seed": 2, name: None}, ((1, 0),), started="2026-03-01")
    study = Source(tmp_path).study("s", "laptop", METHOD)
    seeds = [run.seed for run in study.runs]  # None is another setting, and newer
    assert seeds == [2] or (not seeds and "backends local: " in study.refused["sokoban", "small", "grpo"])


def test_a_field_that_is_added_later_orphans_no_task_set(tmp_path):
    made = task_set(Sokoban(), "test", 3, tmp_path)
    assert task_set(with_field(Sokoban(), 1.0, neutral=True), "test", 3, tmp_path) == made
    assert len(list(tmp_path.iterdir())) == 1
    task_set(with_field(Sokoban(), 1.0), "test", 3, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_no_remedy_of_the_gpu_page_begins_a_run_anew():
    """Whatever docs/gpu.md tells an operator to add to a command, the run goes on from its checkpoint."""
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    remedies = re.search(r"<!-- remedies -->\n(.*?)<!-- end -->", page, re.S)
    assert remedies is not None
    told = re.findall(r"`([a-z_.]+=\w[\w.]*)`", remedies[1])
    assert {name.split("=")[0] for name in told} >= {
        *("backend.micro_batch_tokens", "backend.gpu_memory_utilization", "backend.offload", "backend.attention"),
        *("backend.patience", "checkpoint_every", "checkpoints"),
    }

    def composed(*overrides):
        common = ("tier=paper", "backend=verl", "model=large", "credit=gated_bepo", "seed=0")
        return compose_study("main_alfworld", [*common, *overrides]).configured[0][1]

    plain = run_id(identity_of(composed()))
    for remedy in told:
        assert run_id(identity_of(composed(remedy))) == plain, remedy
