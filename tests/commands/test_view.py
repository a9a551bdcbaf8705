"""``python -m bepo.view``: the page is written, the terminal gets text, and mistakes get one line."""

import pytest

from bepo import view
from bepo.store import find
from tests.explore.runs_with_episodes import HOSTILE, write


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write(folder, "gated_bepo", 0, HOSTILE)
    write(folder, "grpo", 1)
    return folder


@pytest.fixture(autouse=True)
def no_published_runs(monkeypatch, tmp_path):
    """They take half a minute to read."""
    monkeypatch.setattr(find, "PUBLISHED", tmp_path)


def ids(results):
    return sorted(path.name for path in results.glob("runs/*"))


def run(results, *arguments):
    return view.main([*arguments, "--results", str(results), "--no-open"])


def test_a_study_becomes_one_page_without_its_texts_in_the_open(results, capsys):
    assert run(results, "explored") == 0
    path = capsys.readouterr().out.strip()
    assert path == str(results / "views" / "explored.smoke.html")
    text = (results / "views" / "explored.smoke.html").read_text(encoding="utf-8")
    assert "window.hit" not in text and "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_without_a_run_the_page_is_a_table_of_all_runs(results, capsys):
    assert run(results, "--tier", "smoke") == 0
    path = results / "views" / "runs.html"
    assert capsys.readouterr().out.strip() == str(path) and 'id="tasks"' in path.read_text(encoding="utf-8")


def test_an_episode_as_text_has_every_estimators_advantage(results, capsys):
    name = next(i for i in ids(results) if "grpo" in (results / "runs" / i / "config.json").read_text(encoding="utf-8"))
    assert run(results, name, "--text", "--from", "update 1", "--episode", "2") == 0
    out = capsys.readouterr().out
    assert "update 1, episode 2 of 6, task task0" in out and "action:   go b   reward 10" in out
    assert "GRPO +" in out and "Gated-BEPO +" in out and "success: return 10" in out
    assert run(results, name, "--text") == 0
    assert "response: go a" in capsys.readouterr().out


def test_a_comparison_as_text_names_the_first_difference(results, capsys):
    names = ids(results)
    assert run(results, "--compare", *names, "--text") == 0
    out = capsys.readouterr().out
    assert "step 2: " in out and "both solved 1" in out and "neither 1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text"], "--text: name a run"),
        (["--tier", "nowhere"], "no run of tier 'nowhere'; tiers that have runs: "),
        (["nowhere"], "run 'nowhere': "),
        (["explored", "--text"], "but 2 are named"),
        (["--compare", "explored", "explored"], "--compare explored: 2 runs; name one of"),
        (["FIRST", "--text", "--episode", "9"], "--episode 9: test episodes of run"),
        (["FIRST", "--text", "--from", "update 7"], "choices: test episodes, update 1"),
        (["--compare", "FIRST", "FIRST"], "--compare"),
    ],
)
def test_a_mistake_gets_one_line(results, capsys, arguments, message):
    first = ids(results)[0]
    assert run(results, *(first if a == "FIRST" else a for a in arguments)) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("reading ")]
    assert len(err) == 1 and message in err[0]
