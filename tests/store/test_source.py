"""Which files make the sources of a run "uncommitted"."""

import subprocess
import sys

import pytest

from tests.conftest import DATA

MODULE = DATA.parents[1] / "bepo" / "store" / "source.py"


@pytest.fixture
def checkout(tmp_path):
    """A repository with a package of two files, and how to ask it for the state of its sources."""
    files = {"bepo/store/source.py": MODULE.read_text(encoding="utf-8"), "bepo/page.html": "", "conf/train.yaml": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    def git(*arguments):
        settings = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")

    def dirty() -> bool:
        code = "from bepo.store.source import SOURCE; print(SOURCE['dirty'])"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
        return {"True": True, "False": False}[done.stdout.strip()]

    return tmp_path, dirty


@pytest.mark.parametrize(
    "name, counts",
    [
        ("notes.txt", False),
        ("analysis/notebooks/__marimo__/session/runs.py.json", False),
        ("bepo/notes.txt", False),
        ("conf/train.yaml", False),  # config.json holds every setting
        ("experiments/mine.yaml", False),
        ("bepo/page.html", True),
        ("bepo/store/source.py", True),
        ("bepo/credit/mine.py", True),
        ("bepo/credit/a b.py", True),
    ],
)
def test_only_the_package_counts(name, counts, checkout):
    folder, dirty = checkout
    assert not dirty()
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text(encoding="utf-8") if path.exists() else "") + "\n", encoding="utf-8")
    assert dirty() == counts
