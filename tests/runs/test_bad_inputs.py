"""Whatever is wrong with a setting is refused in one line that names it: a table of bad inputs."""

import runpy
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from bepo.runs.compose import CONFIG_ERRORS, explain, register_configs, to_config
from bepo.sweep.space import parse
from tests.conftest import DATA

TABLE = yaml.safe_load((DATA / "bad_inputs.yaml").read_text())
CASES = [
    (base, f"{name}={value}")
    for base, settings in TABLE["settings"].items()
    for name, values in settings.items()
    for value in values
]


@cache
def composed(base: str) -> DictConfig:
    register_configs()
    with initialize_config_dir(str(Path(__file__).parents[2] / "conf")):
        return compose("train", [base] if base else [])


@pytest.mark.parametrize("base", TABLE["settings"])
def test_what_is_changed_composes(base):
    to_config(composed(base))


@pytest.mark.parametrize("base, override", CASES)
def test_bad_settings_are_refused_by_name(base, override):
    (parsed,) = parse([override])
    config = composed(base).copy()
    with pytest.raises(CONFIG_ERRORS) as caught:
        OmegaConf.update(config, parsed.key_or_group, parsed.value(), force_add=True)
        to_config(config)
    line = explain(caught.value)
    assert parsed.key_or_group.split(".")[-1] in line and "\n" not in line and len(line) < 1300


def test_the_table_is_long_enough():
    assert len(CASES) + len(TABLE["commands"]) >= 250


@pytest.mark.slow
@pytest.mark.parametrize("arguments, words", TABLE["commands"])
def test_bad_commands_end_with_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bepo.train", f"results={tmp_path}", *arguments])
    monkeypatch.delitem(sys.modules, "bepo.train", raising=False)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # the command sets it, for this test alone
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("bepo.train", run_name="__main__", alter_sys=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert caught.value.code == 2 and line.startswith("error: ") and words in line and len(line) < 1300
