"""Playing in the terminal, for every environment through its interface alone."""

import io

import numpy as np
import pytest

from bepo.envs import environments
from bepo.play import blocks, main
from tests.command import python


def played(monkeypatch, capsys, answers, *arguments):
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(params=environments())
def name(request):
    if missing := environments()[request.param]().missing():
        pytest.skip(str(missing))
    return request.param


def test_the_expert_solves_the_first_task(name, monkeypatch, capsys):
    if not environments()[name]().has_expert:
        assert "has no expert" in played(monkeypatch, capsys, "", name, "--expert")[2]
        return
    certain = ('kwargs={"is_slippery": false}',) if name == "gymnasium" else ()
    code, out, _ = played(monkeypatch, capsys, "", name, *certain, "--expert", "--split", "test")
    assert code == 0 and out.splitlines()[-1].startswith("success: score 1,"), out


def test_a_person_may_look_and_leave(name, monkeypatch, capsys):
    code, out, _ = played(monkeypatch, capsys, "1\n", name)
    assert code == 0 and "step 1 of" in out and out.splitlines()[-1].startswith("stopped: score 0,")


def test_numbers_words_hints_and_slips(monkeypatch, capsys):
    code, out, _ = played(monkeypatch, capsys, "jump\n9\n\n?\n2\nGO UP\nq\n1\n", "sokoban", "--task", "2", "dim=7")
    assert code == 0 and "'jump' is not an action" in out and "'9' is not an action" in out and "the expert: " in out
    assert "down: reward -0.1" in out and "up: reward -0.1" in out
    assert out.splitlines()[-1] == "stopped: score 0, return -0.2 after 2 steps"


def test_a_number_that_is_the_word_of_an_action_runs_it(monkeypatch, capsys):
    pytest.importorskip("gymnasium")
    words = 'actions=["2", "1", "0"]'
    _, out, _ = played(monkeypatch, capsys, "2\n0\n3\n", "gymnasium", "id=MountainCar-v0", words)
    assert "\n2  1  0\n" in out and "2: reward" in out and "0: reward" in out
    assert "'3' is not an action; choices: the words of an action, ?, q" in out


def test_running_out_of_steps(monkeypatch, capsys):
    _, out, _ = played(monkeypatch, capsys, "1\n1\n", "sokoban", "horizon=2", "min_solution=2", "--task", "3")
    assert out.splitlines()[-1] == "out of steps: score 0, return -0.2 after 2 steps"


def test_through_a_pipe():
    done = python("-m", "bepo.play", "sokoban", "min_solution=5", typed="up\ndown\n")
    assert done.returncode == 0 and "after 2 steps" in done.stdout and not done.stderr


def test_images_are_printed(monkeypatch, capsys):
    _, out, _ = played(monkeypatch, capsys, "", "sokoban", "observation=rgb")
    assert out.count("▀") == 96 * 48 and "<image>" not in out
    assert blocks(np.zeros((4, 200, 3), np.uint8)).count("▀") == 67  # every third pixel, two rows a line
