"""What the doctor says, and that plug-ins speak for themselves."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from bepo.core.errors import Missing, UserError
from bepo.core.registry import Plugin
from bepo.doctor import __main__ as doctor
from bepo.doctor.__main__ import findings, main, table
from bepo.doctor.findings import Finding
from bepo.envs import environments
from bepo.policies import policies
from bepo.policies.pretrained import weights_missing
from bepo.store.tracking import Tracking
from bepo.training.backends import backends


@dataclass
class Needy(Plugin):
    """Usable as it comes, not with every choice."""

    name: Literal["needy"] = "needy"
    data: Literal["own", "original"] = "own"
    mode: Literal["a", "b"] = "a"

    def __post_init__(self):
        if self.mode == "b":
            raise UserError("mode=b: not on a Saturday")

    def missing(self):
        return Missing("no original data", "fetch-data") if self.data == "original" else None


@pytest.fixture(scope="module")
def found():
    return list(findings())


def test_every_plugin_is_listed_by_existing(found):
    names = {f.name for f in found}
    assert {*environments(), *policies(), *backends()} <= names
    assert {"paper_small", "paper_vl", "git", "latex", "packages", "verl environment"} <= names


def test_what_every_machine_has_is_usable_and_every_problem_has_words(found):
    by_name = {f.name: f for f in found}
    assert not any(by_name[n].problem for n in ("sokoban", "tiny", "tiny_vl", "local", "wandb", "packages", "optuna"))
    assert all(f.problem or not f.fix for f in found)


def test_choices_of_a_plugin(monkeypatch):
    monkeypatch.setattr("bepo.envs.environments", lambda: {"needy": Needy})
    found = {f.name: f for f in findings() if f.part == "environments"}
    assert found["needy"] == Finding("environments", "needy")
    assert (found["needy data=original"].problem, found["needy data=original"].fix) == (
        "no original data",
        "fetch-data",
    )
    assert found["needy mode=b"].problem == "mode=b: not on a Saturday"


def test_what_cannot_be_imported_is_a_finding(monkeypatch):
    def broken():
        raise ModuleNotFoundError("No module named 'thefuzz'")

    monkeypatch.setattr("bepo.envs.environments", broken)
    monkeypatch.setattr(doctor, "LOOKS", [broken])
    first, *_, last = findings()
    assert (first.name, first.fix, last.name) == ("environments", "make install", "broken")
    assert "thefuzz" in first.problem and "thefuzz" in last.problem


def test_the_table_names_problem_and_remedy_and_hides_choices_that_work():
    text = table(
        [
            Finding("a", "one", note="1.0"),
            Finding("a", "one x=1", minor=True),
            Finding("b", "two y=2", "no oil", "pour oil", minor=True),
        ],
        colour=False,
    )
    assert text.splitlines() == [
        "a",
        "  ✓ one      1.0",
        "b",
        "  ✗ two y=2  no oil",
        "      → pour oil",
        "all you need for the tutorial is here",
        "1 of 2 usable",
    ]
    assert "\x1b[31m" in table([Finding("a", "one", "broken")], colour=True)


def test_strict_and_json(monkeypatch, capsys):
    listed = [Finding("a", "whole"), Finding("a", "broken", "no oil", "pour oil")]
    monkeypatch.setattr(doctor, "findings", lambda: listed)
    assert main([]) == 0 and main(["--strict", "whole"]) == 0 and main(["--strict", "whole", "broken"]) == 1
    capsys.readouterr()
    assert main(["--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["whole", "broken"]
    assert main(["--strict", "brokn"]) == 2
    assert "'brokn'; choices: broken, whole" in capsys.readouterr().err


def test_weights(tmp_path, monkeypatch):
    assert "hf download no/such" in weights_missing("no/such").fix
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert "no weights" in weights_missing(str(tmp_path)).problem
    (tmp_path / "model.safetensors").touch()
    assert weights_missing(str(tmp_path)) is None


def test_wandb_login(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    assert Tracking().missing() is None
    assert Tracking(mode="online").missing().fix == "wandb login"
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert Tracking(mode="online").missing() is None
