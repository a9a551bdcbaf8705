"""Spellings that all commands share: results=FOLDER and --results FOLDER, abbreviations, names in Python."""

import inspect

import pytest

import bepo
from bepo.core.errors import Parser, nearest, path_of
from bepo.doctor.__main__ import table
from bepo.doctor.findings import Finding
from bepo.runs.command import results_as_override


@pytest.mark.parametrize("words", [["--results", "a b"], ["--results=a b"], ["results=a b"]])
def test_the_results_folder_has_two_spellings(words):
    parser = Parser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--results", type=path_of)
    for parse in (parser.parse_args, parser.parse_intermixed_args):
        found = parse(["x=1", *words])
        assert str(found.results) == "a b" and found.names == ["x=1"]
    assert results_as_override(["seed=0", *words, "--multirun"]) == ["seed=0", "results=a b", "--multirun"]


def test_subcommands_take_both_spellings(tmp_path, capsys):
    from analysis.__main__ import main

    for words in (["--results", str(tmp_path)], [f"results={tmp_path}"]):
        assert main(["runs", *words, "--source", "local"]) == 0
        assert capsys.readouterr().out == "no runs\n"


def test_a_command_without_results_takes_it_as_any_other_word():
    parser = Parser()
    parser.add_argument("names", nargs="*")
    assert parser.parse_args(["results=x"]).names == ["results=x"]


def test_initials_name_a_setting():
    fields = ["learning_rate", "kl_coef", "epochs", "max_grad_norm"]
    assert nearest("lr", fields) == "; did you mean learning_rate?"
    assert nearest("epoch", fields) == "; did you mean epochs?" and nearest("zzz", fields) == ""


def test_python_shows_what_there_is():
    assert {"train", "sweep", "evaluate", "load"} <= set(dir(bepo)) and "sys" not in dir(bepo)
    for function in (bepo.train, bepo.evaluate, bepo.sweep):
        assert str(inspect.signature(function)).startswith("(*") and "return" in inspect.getdoc(function)


def test_the_doctor_says_whether_the_tutorial_can_begin():
    needed = [Finding(part, name) for part, name in (("environments", "sokoban"), ("policies", "tiny"), ("x", "local"))]
    assert "all you need for the tutorial is here" in table(needed, colour=False)
    lacking = [*needed[:2], Finding("backends", "local", "no torch", "make install")]
    assert "the tutorial needs local" in table(lacking, colour=False)
