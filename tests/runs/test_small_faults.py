"""Stray files, modes of files, numbers of numpy and keys of rows."""

import os

import pytest

from bepo.core.seeds import derive_seed
from bepo.envs.webshop.json_files import JsonList
from bepo.store.folders import seal_folder
from bepo.store.runs import RunFolder


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


def test_a_byte_order_mark_is_skipped(tmp_path):
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf[1, {"a": 2}]')
    entries = JsonList(tmp_path / "x.json")
    assert list(entries) == [1, {"a": 2}] and entries[1] == {"a": 2}


def test_seeds_of_streams_are_those_of_published_runs():
    assert derive_seed(1) == derive_seed(1, 0) != derive_seed(1, 1)  # as the docstring says
