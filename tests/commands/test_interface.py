"""``bepo.train``, ``bepo.evaluate`` and ``bepo.sweep`` from Python, and in a notebook."""

import os

import pytest

import bepo
from bepo.core.errors import UserError
from bepo.interface import overrides_of
from bepo.sweep.__main__ import main as sweep_here
from tests.command import SMALLEST, python, run, start_server

TINY = (*(text for text in SMALLEST if not text.startswith(("updates", "progress"))), "updates=2", "evaluation.every=2")
NOTEBOOK = """
import marimo

app = marimo.App()

@app.cell
def _():
    import bepo
    run = bepo.train(*{settings!r}, credit="grpo", seed=1, results={results!r})
    run
    return (run,)

@app.cell
def _(run):
    print("episodes:", len(run.episodes))
    return
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return str(tmp_path_factory.mktemp("it's, results"))


@pytest.fixture(scope="module")
def trained(results):
    return bepo.train(*TINY, credit="grpo", seed=0, results=results, **{"credit.invalid_penalty": 0.2})


def test_a_training_is_that_of_the_command(trained, results):
    quoted = overrides_of((), {"results": results})
    status, out, _ = run(*TINY, "credit=grpo", "credit.invalid_penalty=0.2", "progress=false", *quoted)
    assert status == 0 and f"run {trained.runs['run'][0]} is complete" in out
    assert len(trained.metrics) == 2 and set(trained.episodes["split"]) == {"validation", "test"}
    final = trained.episodes.query("final and split == 'test'")
    assert len(trained.rollouts()) and trained.runs["success"][0] == final["success"].mean()
    assert str(trained.runs["run"][0]) in repr(trained) and "<table" in trained._repr_html_()


def test_an_evaluation_returns_its_episodes(trained, results):
    found = bepo.evaluate(run=trained.runs["run"][0], results=results, **{"evaluation.tasks": 3})
    assert len(found.episodes) == 3 * 2 and not len(found.metrics) and found.runs["updates"][0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("place", ["here", pytest.param("a process", marks=pytest.mark.long)])
def test_a_sweep_returns_the_runs_of_its_cells(place, results, monkeypatch, capsys):
    """By itself it starts another process, which imports everything, as does the server of its workers."""
    start_server()
    if place == "here":
        monkeypatch.setattr("bepo.interface._run_sweep", sweep_here)
    found = bepo.sweep("main_sokoban_text", *TINY, credit="grpo,rloo", seed=0, results=results, jobs=1)
    assert found.runs["credit"].tolist() == ["grpo", "rloo"] and set(found.runs["status"]) == {"complete"}
    assert "2 of 2 runs complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    "call, problem",
    [
        (lambda: bepo.train(credit="grppo"), "did you mean grpo"),
        (lambda: bepo.train("updates=0"), "updates=0: must be at least 1 for training; bepo.evaluate"),
        (lambda: bepo.evaluate(updates=3), "updates=3: must be 0 for an evaluation"),
        (lambda: bepo.sweep("seed=0"), "name at least one study; choices: .*main_sokoban"),
        (lambda: bepo.sweep("main_sokobann"), "unknown study 'main_sokobann'.*did you mean main_sokoban"),
        (lambda: bepo.train(no_field=1), "no_field"),
    ],
)
def test_wrong_settings_are_one_line(call, problem):
    with pytest.raises(UserError, match=problem) as error:
        call()
    assert "\n" not in str(error.value)


def test_values_are_written_as_hydra_reads_them():
    from hydra.core.override_parser.overrides_parser import OverridesParser

    given = {"a": None, "b": True, "c": 1e-5, "d": [1, "two"], "e": {"k": "it's"}, "f": "a, b\\'c", "g": "x/y.z"}
    parsed = OverridesParser.create().parse_overrides(overrides_of(["h=1"], given))
    assert {one.key_or_group: one.value() for one in parsed if one.key_or_group not in "e"} == {
        **{name: value for name, value in given.items() if name != "e"},
        "h": 1,
    }
    (nested,) = (one.value() for one in parsed if one.key_or_group == "e")
    assert {str(key): str(value) for key, value in nested.items()} == {"k": "it's"}


@pytest.mark.slow
@pytest.mark.long
def test_a_notebook_shows_the_progress_and_the_run(tmp_path):
    pytest.importorskip("marimo")
    (tmp_path / "book.py").write_text(
        NOTEBOOK.format(settings=TINY, results=str(tmp_path / "results")), encoding="utf-8"
    )
    export = ("-m", "marimo", "-q", "export", "html", "book.py", "-o", "out.html")
    done = python(*export, folder=tmp_path, PYTHONPATH=os.getcwd())
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    count = len(bepo.load(tmp_path / "results", results=tmp_path).episodes)
    assert "grpo seed 1: 100%" in text and f"episodes: {count}" in text and "dataframe" in text
