"""``bepo new`` writes packages whose own tests pass, and that commands find without an installation."""

import json
import os
import re

import pytest

from bepo.new.__main__ import main
from tests.command import SMALLEST, Command

KINDS = ("estimator", "environment", "loss", "study", "table")


def run(folder, module, *arguments):
    command = Command(module, *arguments, folder=folder)
    output = "".join(command.communicate())
    assert command.returncode == 0, output
    return output


@pytest.fixture
def packages(tmp_path, monkeypatch, capsys):
    """A package of each kind, named my_KIND, below one folder."""
    for kind in KINDS:
        assert main([kind, f"my_{kind}", "--in", str(tmp_path)]) == 0
        assert f"BEPO_PLUGINS={tmp_path}/my_{kind}/my_{kind}" in capsys.readouterr().out
    return tmp_path


@pytest.mark.slow
@pytest.mark.long
def test_every_package_passes_its_own_tests(packages, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    folders = [str(packages / f"my_{kind}") for kind in KINDS]
    output = run(packages, "pytest", "-n", "0", "-p", "no:cacheprovider", "-o", f"pythonpath={' '.join(folders)}", "-v")
    for kind in KINDS:
        assert f"tests/test_my_{kind}.py::test_" in output
    assert " passed" in output and "skipped" not in output


@pytest.mark.slow
@pytest.mark.long
def test_a_run_uses_and_notes_plug_ins(packages, monkeypatch):
    kinds = ("estimator", "environment", "loss")
    plugins = ":".join(f"my_{kind}/my_{kind}" for kind in kinds)
    chosen = ("credit=my_estimator", "env=my_environment", "loss=my_loss", "env.horizon=100")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    run(packages, "bepo.train", *SMALLEST, "updates=1", f"plugins={plugins}", *chosen)
    (path,) = packages.glob("results/runs/*/run.json")
    metadata = json.loads(path.read_text(encoding="utf-8"))
    (session,) = metadata["sessions"]
    assert [one["name"] for one in session["plugins"]] == sorted(f"my_{kind}" for kind in kinds)
    assert {len(one["digest"]) for one in session["plugins"]} == {16}
    assert metadata["identity"]["credit"]["name"] == "my_estimator" and "plugins" not in metadata["identity"]
    monkeypatch.setenv("BEPO_PLUGINS", str(packages / "my_study" / "my_study"))
    plan = run(packages, "bepo.sweep", "my_study", "--dry-run")
    assert "6 cells are 6 runs" in plan


@pytest.mark.slow
def test_a_new_study_can_be_a_search(tmp_path, monkeypatch, capsys):
    assert main(["study", "my_search", "--optuna", "--in", str(tmp_path)]) == 0
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.setenv("BEPO_PLUGINS", str(tmp_path / "my_search" / "my_search"))
    assert re.search(r"my_search.*0 of 20 trials", run(tmp_path, "bepo.sweep", "my_search", "--dry-run"))
    with pytest.raises(SystemExit):
        main(["loss", "my_loss", "--optuna", "--in", str(tmp_path)])
    assert "--optuna: is for a study, not for kind loss" in capsys.readouterr().err
