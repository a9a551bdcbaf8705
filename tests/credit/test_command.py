import json
import subprocess
import sys

import numpy as np
import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.places import CONF
from bepo.credit import estimators
from bepo.credit.__main__ import main
from tests.conftest import DATA

GOLDEN = str(DATA / "credit_golden.json")


def test_list_names_every_estimator_and_marks_reconstructions(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    for name, cls in estimators().items():
        line = next(line for line in out.splitlines() if line.startswith(f"{name} "))
        assert cls.citation in line and ("RECONSTRUCTION" in line) == cls.reconstruction


def test_list_prints_whole_sentences_and_presets(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    words = " ".join(out.split())
    for cls in estimators().values():
        assert " ".join((cls.__doc__ or "").split("\n\n")[0].split()) in words
    assert "presets: rtmc\n" in out and "presets: gigpo_official gigpo_paper gigpo_roll sampo\n" in out
    listed = {word for line in out.split("presets: ")[1:] for word in line.split("\n\n")[0].split()}
    assert listed >= {path.stem for path in (CONF / "credit").glob("*.yaml")}


@pytest.mark.slow
def test_help_marks_reconstructions(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    marked = {line.split()[0] for line in capsys.readouterr().out.splitlines() if "RECONSTRUCTION" in line}
    assert marked == {name for name, cls in estimators().items() if cls.reconstruction} >= {"gagpo", "crbc"}


def test_apply_to_the_golden_layout_and_to_saved_groups(tmp_path, capsys, credit_cases):
    rows = credit_cases[0]["rows"]
    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    RolloutBatch.from_rows(rows).save(tmp_path / "group.npz")
    for name in ("rows.json", "group.npz"):
        out = tmp_path / f"{name}.out"
        settings = ["invalid_penalty=0", "solver=exact"]
        assert main(["gated_bepo", *settings, "--rollouts", str(tmp_path / name), "--out", str(out)]) == 0
        written = json.loads(out.read_text(encoding="utf-8"))
        np.testing.assert_allclose(written["advantage"], credit_cases[0]["gated_bepo_exact"]["A"], atol=1e-5)
        assert written["metrics"]["converged_groups"] == 1
    assert main(["grpo", "--rollouts", GOLDEN]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if line.startswith("u")]) == 827


def test_every_row_says_the_action_that_was_taken(tmp_path, capsys, credit_cases):
    rows = [{**row, "action": "turn left, then go"} for row in credit_cases[0]["rows"]]
    rows[0]["action"] = None
    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    assert main(["grpo", "--records", str(tmp_path / "rows.json")]) == 0
    head, *lines = (line for line in capsys.readouterr().out.splitlines() if not line.startswith("#"))
    assert head == "task,trajectory,step,state,action,advantage"
    assert sum(',"turn left, then go",' in line for line in lines) == len(rows) - 1


@pytest.mark.slow
def test_a_closed_pipe_is_no_traceback():
    command = [sys.executable, "-m", "bepo.credit", "grpo", "--rollouts", GOLDEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_json_output_has_no_infinities(tmp_path):
    """value_bound is infinite at gamma = 1: JSON has no word for it."""
    out = tmp_path / "out.json"
    assert main(["gated_bepo", "gamma=1", "iterations=3", "--rollouts", GOLDEN, "--out", str(out)]) == 0

    def refuse(word):
        raise AssertionError(word)

    assert json.loads(out.read_text(encoding="utf-8"), parse_constant=refuse)["metrics"]["value_bound"] is None


ODD = {
    "whole number": [("t", 1.9), ("t", "1"), ("t", True), ("obs", True), ("obs", 1.0), ("next", 1.0), ("uid", 1.5)],
    "t=-1": [("t", -1)],
    "finite number": [("r", float("nan")), ("r", float("inf")), ("r", None), ("r", "1")],
    "true or false": [("valid", "false"), ("valid", None), ("broken", 1)],
}


@pytest.mark.parametrize("words, name, value", [(words, *odd) for words, every in ODD.items() for odd in every])
def test_rows_that_no_estimator_can_use_are_one_line(words, name, value, tmp_path, capsys):
    row = {"uid": 0, "traj": 0, "t": 0, "obs": 1, "next": 2, "r": 1.0, "done": "success", "valid": True}
    (tmp_path / "rows.json").write_text(json.dumps([row, row | {"traj": 1, name: value}]), encoding="utf-8")
    assert main(["grpo", "--rollouts", str(tmp_path / "rows.json")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"rows.json: row 1: {name}={value!r}" in line and words in line


@pytest.mark.parametrize(
    "settings",
    [["crbc", "beta=1"], ["graft", "gamma=1"], ["graphhca", "gamma=1"], ["gated_bepo", "gamma=1", "solver=exact"]],
)
def test_states_that_lead_to_no_end_have_no_value_without_a_discount(settings, tmp_path, capsys):
    """The second row does not start where the first one ended, so s leads to itself alone."""
    row = {"uid": 0, "traj": 0, "r": 0.0, "valid": True, "action": "a"}
    rows = [
        row | {"t": 0, "obs": "s", "next": "s", "done": None},
        row | {"t": 1, "obs": "u", "next": "end", "done": "success", "r": 1.0},
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    assert main([*settings, "--rollouts", str(path)]) == 2
    error = capsys.readouterr().err
    assert "these rollouts have 1" in error and "discount" in error and error.count("\n") == 1
    for reached in ("u", "where no transition starts"):
        path.write_text(json.dumps([rows[0] | {"next": reached}, rows[1]]), encoding="utf-8")
        assert main([*settings, "--rollouts", str(path)]) == 0
