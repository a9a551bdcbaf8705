"""Which files count as the source of a run."""

import subprocess
from pathlib import Path

import pytest

from bepo.store.source import source_state

TRACKED = ("bepo/core/seeds.py", "bepo/training/verl/agent_loop.yaml", "conf/train.yaml", "experiments/main.yaml")
OTHERS = ("docs/files.md", "analysis/notebooks/runs.py", "notes.txt")


@pytest.fixture
def tree(tmp_path) -> Path:
    """A repository whose files are committed, with one of each kind."""
    for name in (*TRACKED, *OTHERS):
        write(tmp_path / name, "old")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


NEW = ("bepo/new/part.py", "bepo/core/new.py", "conf/new/a.yaml", "experiments/a.yaml")


@pytest.mark.parametrize("name", [*TRACKED, *NEW])
def test_a_changed_or_new_source_counts(tree, name):
    assert source_state(tree)["dirty"] is False and len(source_state(tree)["commit"]) == 40
    write(tree / name, "new")
    assert source_state(tree)["dirty"] is True


NOT_SOURCES = (*OTHERS, "analysis/notebooks/__marimo__/session/runs.py.json", "bepo/notes.txt", "tests/test_new.py")


@pytest.mark.parametrize("name", NOT_SOURCES)
def test_a_file_that_no_run_reads_does_not_count(tree, name):
    write(tree / name, "new")
    assert source_state(tree)["dirty"] is False


def test_outside_a_checkout_nothing_is_known(tmp_path):
    assert source_state(tmp_path) == {"commit": None, "dirty": None}
