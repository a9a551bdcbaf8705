"""Whatever is wrong with a setting is refused in one line that names it: a table of bad inputs."""

import json
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from bepo.runs.compose import CONFIG_ERRORS, explain, register_configs, to_config
from bepo.sweep.space import parse
from tests.command import Command
from tests.conftest import DATA

TABLE = yaml.safe_load((DATA / "bad_inputs.yaml").read_text(encoding="utf-8"))
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


COMMANDS = [
    (command, *case)
    for part in ("commands", "commands_of_sweeps")
    for command, cases in TABLE[part].items()
    for case in cases
]
PLACES = [(*case[:3], case[3] if len(case) > 3 else {}) for case in TABLE["places_and_members"]]
PLACES += [(module, shlex.split(line), words, {}) for module, own in TABLE["quick"].items() for line, words in own]
NO_YAML = {
    "open_list": "a: [", "two_colons": "a: b: c", "tab": "\t- x", "code": "a: !!python/object:os.system 1",
    "anchor": "a: &x *y", "list": "- 1", "quote": "'", "twice": "a: 1\na: 2", "version": "%YAML 9.9\n---\na: 1",
    "control": "\0", "interpolation": "a: ${", "defaults": "defaults: 3", "no_such_group": "defaults:\n  - nope: x",
    "no_such_choice": "defaults:\n  - train\n  - override env: nope",
}  # fmt: skip
SMALL = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 1}
SMALL |= {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 100}


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> Iterator[Path]:
    """A folder with invalid YAML, and with broken checkpoints."""
    folder = tmp_path_factory.mktemp("bad")
    files = {f"conf/{name}.yaml": text for name, text in NO_YAML.items()}
    files |= {"nothing/empty": "", "config_cut/config.json": json.dumps(SMALL)[:-1]}
    files |= {f"{name}/config.json": json.dumps(SMALL) for name in ("no_weights", "broken_weights")}
    files |= {"broken_weights/model.safetensors": "nonsense" * 10, "unreadable_weights/model.safetensors": ""}
    files |= {"unreadable.json": "{}", "locked/inside/config.json": "{}"}
    files |= {"broken_tokenizer/tokenizer_config.json": "[", "list_tokenizer/tokenizer_config.json": "[]"}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "bin").write_bytes(bytes(range(256)))
    for name in ("pipes", "ro", "nothing.md"):
        (folder / name).mkdir()
    for name in ("pipe.json", "pipe.md", "pipe.npz", "pipe.zip", "pipes/config.json"):
        os.mkfifo(folder / name)
    (folder / "loop").symlink_to("loop")
    modes = {"unreadable.json": 0, "unreadable_weights/model.safetensors": 0, "locked": 0, "ro": 0o555}
    for name, mode in modes.items():
        (folder / name).chmod(mode)
    yield folder
    for name in modes:
        (folder / name).chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("module, arguments, words, environment", PLACES)
def test_places_members_and_addresses(module, arguments, words, environment, bad, tmp_path, monkeypatch, capsys):
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("{bad}", str(bad)))
    arguments = [argument.replace("{bad}", str(bad)) for argument in arguments]
    refused(module, arguments, words.replace("{bad}", str(bad)), tmp_path, monkeypatch, capsys)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("module, arguments, words", COMMANDS)
def test_bad_commands_end_with_one_line(module, arguments, words, bad, tmp_path, monkeypatch, capsys):
    arguments = [argument.replace("{bad}", str(bad)) for argument in arguments]
    refused(module, arguments, words.replace("{bad}", str(bad)), tmp_path, monkeypatch, capsys)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("line, words", TABLE["around"])
def test_what_is_around_a_command_is_named_in_one_line(line, words, bad, tmp_path, monkeypatch, capsys):
    parts = shlex.split(line.replace("{bad}", str(bad)))
    at = next(at for at, part in enumerate(parts) if part.startswith(("bepo", "analysis")))
    before, module, arguments = parts[:at], parts[at], parts[at + 1 :]
    if not before:
        refused(module, arguments, words, tmp_path, monkeypatch, capsys)
        return
    arguments = placed(module, arguments, tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, value in (part.split("=", 1) for part in before if "=" in part):
        monkeypatch.setenv(name, value)
    words_of = [*(["tests.without_rights"] if "@drop" in before else []), module, *arguments]
    if any(part.startswith(("@full", "MATPLOTLIBRC")) for part in before):  # is read while libraries are imported
        with open("/dev/full" if "@full" in before else os.devnull, "wb") as out:
            done = subprocess.run([sys.executable, "-m", *words_of], stdout=out, stderr=subprocess.PIPE, timeout=100)
        err, status = done.stderr.decode(), done.returncode
    else:
        forked = Command(*words_of)
        (_, err), status = forked.communicate(), forked.returncode
    *_, last = lines = err.splitlines()
    assert status == 2 and len(lines) <= 2 and last.startswith("error: ") and words in last, lines
    assert "secret" not in last


def placed(module: str, arguments: list[str], folder: Path) -> list[str]:
    """Return the arguments of a command with its results folder, unless they name one."""
    of_results = {"analysis": ["--results", str(folder)], "bepo.view": ["--results", str(folder)]}
    composed = module in ("bepo.train", "bepo.evaluate", "bepo.sweep")
    place = [f"results={folder}"] if composed else of_results.get(module, [])
    if module == "analysis":  # a command stands first, and of two folders the last counts
        return [*arguments, *([] if "--results" in arguments else place)]
    return [*place, *arguments]


def refused(module, arguments, words, folder, monkeypatch, capsys):
    """Run a command in this process: it must end with status 2 and one line that has these words."""
    monkeypatch.setattr(sys, "argv", [module, *placed(module, arguments, folder)])
    is_package = find_spec(module).submodule_search_locations is not None
    # else runpy warns that it was imported before
    monkeypatch.delitem(sys.modules, f"{module}.__main__" if is_package else module, raising=False)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # the command sets it, for this test alone
    with pytest.raises(SystemExit) as caught:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert caught.value.code == 2 and line.startswith("error: ") and words in line and len(line) < 1300
