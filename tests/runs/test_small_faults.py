"""Stray files, modes of files, numbers of numpy and keys of rows."""

import json
import os

import numpy as np
import pytest

from bepo.core.seeds import derive_seed
from bepo.credit import Credit
from bepo.credit.__main__ import main
from bepo.envs.webshop.json_files import JsonList
from bepo.store.folders import seal_folder
from bepo.store.runs import RunFolder
from tests.conftest import DATA


def test_stray_files_beside_checkpoints_are_left_alone(tmp_path):
    folder = RunFolder(tmp_path, "a" * 12)
    for name in ("checkpoint-2", "checkpoint-10", "checkpoint-1.bak", "checkpoint-x", "checkpoint-3.part"):
        (folder.path / name).mkdir(parents=True)
    (folder.path / "checkpoint-4").touch()
    assert [update for update, _ in folder.checkpoints()] == [10, 2]


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_of_a_policy_follow_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        (tmp_path / "policy").mkdir()
        weights = tmp_path / "policy" / "model.safetensors"
        weights.touch(0o600)
        seal_folder(tmp_path / "policy", "content.json")
    finally:
        os.umask(before)
    assert weights.stat().st_mode & 0o777 == mode


def test_metrics_of_numpy_become_plain_numbers():
    metrics = {"a": np.float32(0.5), "b": np.int64(3), "c": np.array(2.0), "d": 1.5}
    credit = Credit(np.zeros(2), metrics=metrics)
    credit.of_tokens(np.array([1, 1]))
    assert json.dumps(credit.numbers()) == '{"a": 0.5, "b": 3, "c": 2.0, "d": 1.5}'


ROW = {"uid": "u", "traj": 0, "t": 0, "obs": "a", "next": "b", "r": 1.0, "done": "success", "valid": True}


@pytest.mark.parametrize(
    "name, value", [("t", 1.9), ("t", True), ("t", -1), ("obs", True), ("next", 1.0), ("uid", 1.5)]
)
def test_keys_that_would_be_read_as_others_are_refused(name, value, tmp_path, capsys):
    (tmp_path / "rows.json").write_text(json.dumps([ROW | {name: value}]), encoding="utf-8")
    assert main(["grpo", "--rollouts", str(tmp_path / "rows.json")]) == 2
    assert f"row 0: {name}={value!r}" in capsys.readouterr().err


def test_numbers_that_json_does_not_know_are_null(tmp_path):
    arguments = ["gated_bepo", "gamma=1", "--rollouts", str(DATA / "credit_golden.json"), "--out"]
    assert main([*arguments, str(tmp_path / "out.json")]) == 0
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    assert json.loads(text)["metrics"]["value_bound"] is None and "Infinity" not in text and "NaN" not in text


def test_a_byte_order_mark_is_skipped(tmp_path):
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf[1, {"a": 2}]')
    entries = JsonList(tmp_path / "x.json")
    assert list(entries) == [1, {"a": 2}] and entries[1] == {"a": 2}


def test_seeds_of_streams_are_those_of_published_runs():
    assert derive_seed(1) == derive_seed(1, 0) != derive_seed(1, 1)  # as the docstring says
