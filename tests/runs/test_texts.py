"""A text setting is the text that was written, also where Hydra or YAML would read a number or a truth value."""

from dataclasses import dataclass, field

import pytest

import bepo
from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.interface import overrides_of
from bepo.runs import texts
from bepo.runs.compose import register, to_config, with_fields
from bepo.runs.texts import refuse_changed_texts, with_texts
from bepo.sweep.composition import compose_with_hydra
from bepo.sweep.space import grid
from tests.command import Command

LIKE_NUMBERS = ["43005925e283", "1e6857", "070548680000", "000000000000", "12345678901e", "1_0", "true", "nan", "-inf"]


@pytest.mark.parametrize("text", LIKE_NUMBERS)
def test_a_text_is_kept_by_hydra_and_from_python(text):
    for overrides in (with_texts([f"run={text}", f"tracking.project={text}"]), overrides_of([], {"run": text})):
        config = compose_with_hydra(CONF, "evaluate", overrides)
        assert config.run == text
    config = compose_with_hydra(CONF, "evaluate", [f"tracking.project={text}", "env=sokoban"])
    assert config.tracking.project == text
    changed = with_fields(to_config(config), [f"tracking.project={text}x", f"tracking.entity={text}"])
    assert (changed.tracking.project, changed.tracking.entity) == (f"{text}x", text)


def test_commands_name_the_run_as_it_was_written(tmp_path):
    command = Command("bepo.evaluate", f"results={tmp_path}", "run=1e6857")
    _, error = command.communicate()
    assert command.returncode == 2 and error.startswith("error: run=1e6857: not found")
    with pytest.raises(UserError, match="run=1e6857: not found"):
        bepo.evaluate(run="1e6857", results=str(tmp_path))


def test_numbers_null_and_sweeps_of_other_settings_are_left_alone():
    same = ["seed=007", "credit.gamma=1e-3", "run=null", "seed=range(8)", "--multirun", "policy.extra={a: 1e5}"]
    assert with_texts(same) == same
    assert with_texts(["run=12"]) == ["run=12"]  # the text "12" after all, and labels of cells stay as they are


def test_each_value_of_a_sweep_and_of_a_list_is_kept():
    assert grid(with_texts(["run=1e6857,5d43bbcc9bce"])) == [["run='1e6857'"], ["run=5d43bbcc9bce"]]
    assert with_texts(["tracking.sinks=[1e5,'a b',c]"]) == ["tracking.sinks=['1e5','a b',c]"]
    assert with_texts(["hydra.sweeper.study_name=1e5"]) == ["hydra.sweeper.study_name='1e5'"]


def test_texts_of_plug_ins_are_kept(monkeypatch):
    @dataclass
    class Plugin:
        label: str | None = None
        labels: tuple[str, ...] = ()
        names: dict[str, str] = field(default_factory=dict)
        size: int = 0

    monkeypatch.setitem(texts.PLUGINS, "env", lambda: {"mine": Plugin})
    given = ["env.label=1e5", "env.labels=[1e5,off,true]", "+env.names.a=1e5", "env.size=0x10"]
    assert with_texts(given) == ["env.label='1e5'", "env.labels=['1e5',off,'true']", "+env.names.a='1e5'", given[-1]]


def test_python_texts_stay_texts_at_any_depth():
    given = {"a": "null", "b": ["2026", "x"], "c": {"k": "1e5"}, "d": "grpo,ppo", "e": 3}
    assert overrides_of([], given) == ["a='null'", "b=['2026',x]", "c={k:'1e5'}", "d=grpo,ppo", "e=3"]


@pytest.mark.parametrize(
    "file, problem",
    [
        ("tracking:\n  project: 1e5", "tracking.project: YAML reads 1e5 as 100000.0; put it in quotes: '1e5'"),
        ("study:\n  name: 2026", "study.name: YAML reads 2026 as 2026"),
        ("tracking:\n  sinks: [wandb, on]", "tracking.sinks: YAML reads on as True"),
        ("hydra:\n  sweeper:\n    params:\n      run: 1e6857", "run: YAML reads 1e6857 as inf"),
    ],
)
def test_a_study_whose_text_yaml_changes_is_refused(file, problem):
    register([])
    with pytest.raises(UserError, match=problem):
        refuse_changed_texts(file, "experiments/x.yaml")


def test_a_study_with_quoted_texts_is_accepted():
    refuse_changed_texts('study: {name: "2026"}\ntracking: {project: 2026, entity: null}\nseed: 1e5', "x.yaml")
